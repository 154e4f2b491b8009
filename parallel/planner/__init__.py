"""The planner: models of links and kernels, every published schedule, and the fastest of them.

Floats in, floats out: no arrays, no devices, no files; machines and plans are read from text.
"""

from parallel.planner.build import Variant as Variant
from parallel.planner.candidate import Candidate as Candidate
from parallel.planner.choose import STRATEGIES as STRATEGIES
from parallel.planner.choose import plan as plan
from parallel.planner.cost import Cost as Cost
from parallel.planner.cost import Knots as Knots
from parallel.planner.cost import Line as Line
from parallel.planner.cost import Roof as Roof
from parallel.planner.fit import Fit as Fit
from parallel.planner.fit import fit_knots as fit_knots
from parallel.planner.fit import fit_line as fit_line
from parallel.planner.graph import timeline_of as timeline_of
from parallel.planner.machine import CodecRate as CodecRate
from parallel.planner.machine import Kernels as Kernels
from parallel.planner.machine import Link as Link
from parallel.planner.machine import Machine as Machine
from parallel.planner.machine_file import machine_from_json as machine_from_json
from parallel.planner.machine_file import machine_to_json as machine_to_json
from parallel.planner.machines import MACHINES as MACHINES
from parallel.planner.machines import machine_of as machine_of
from parallel.planner.plan import Plan as Plan
from parallel.planner.plan_file import plan_from_json as plan_from_json
from parallel.planner.plan_file import plan_to_json as plan_to_json
from parallel.planner.problem import Problem as Problem
from parallel.planner.simulate import Contention as Contention
from parallel.planner.simulate import simulate as simulate
from parallel.planner.strategies.dreamddp import SyncSchedule as SyncSchedule
from parallel.planner.strategies.dreamddp import behind_backward as behind_backward
from parallel.planner.strategies.dreamddp import behind_everything as behind_everything
from parallel.planner.strategies.dreamddp import schedule_sync as schedule_sync
from parallel.planner.task import Task as Task
from parallel.planner.task import Timeline as Timeline
from parallel.planner.workload import Workload as Workload
