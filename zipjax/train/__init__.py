"""Training: one engine, from the text to the closing table."""

from zipjax.train.check import Comparison as Comparison
from zipjax.train.check import compare_states as compare_states
from zipjax.train.config import OptimizerConfig as OptimizerConfig
from zipjax.train.config import TrainConfig as TrainConfig
from zipjax.train.devices import set_up_devices as set_up_devices
from zipjax.train.devices import stdout_for_data as stdout_for_data
from zipjax.train.digest import digest_state as digest_state
from zipjax.train.layout import make_train_mesh as make_train_mesh
from zipjax.train.loop import Outcome as Outcome
from zipjax.train.loop import train as train
from zipjax.train.options import RunOptions as RunOptions
from zipjax.train.plot import plot_losses as plot_losses
from zipjax.train.report import closing_table as closing_table
from zipjax.train.report import summary as summary
from zipjax.train.text import Text as Text
from zipjax.train.text import read_text as read_text
