"""The container file `.zipj`: saved whole or not at all, loaded tensor by tensor, checked."""

from zipjax.files.disk import DiskError as DiskError
from zipjax.files.inspection import inspect as inspect
from zipjax.files.loading import LoadedTensors as LoadedTensors
from zipjax.files.loading import load as load
from zipjax.files.saving import save as save
from zipjax.files.summary import FileSummary as FileSummary
from zipjax.files.summary import TensorSummary as TensorSummary
from zipjax.files.verification import Verification as Verification
from zipjax.files.verification import verify as verify
