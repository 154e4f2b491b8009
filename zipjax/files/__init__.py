"""The container file `.zipj`: saved whole or not at all, loaded tensor by tensor, checked."""

from zipjax.files.disk import DiskError as DiskError
from zipjax.files.inspect import inspect as inspect
from zipjax.files.load import LoadedTensors as LoadedTensors
from zipjax.files.load import load as load
from zipjax.files.save import save as save
from zipjax.files.summary import FileSummary as FileSummary
from zipjax.files.summary import TensorSummary as TensorSummary
from zipjax.files.verify import Verification as Verification
from zipjax.files.verify import verify as verify
