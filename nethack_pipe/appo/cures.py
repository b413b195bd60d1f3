"""What Sample Factory 2.1.1 needs before it runs well with today's Gymnasium and PyTorch. Importing applies it.

Every module of this package whose objects reach Sample Factory's own processes imports this one first, so the cures are
in place there too. Each names the trouble it ends.
"""

import logging
import threading
import warnings
from functools import partial
from typing import Any

from sample_factory.algo.learning import learner_worker
from sample_factory.algo.runners import runner
from sample_factory.algo.utils import make_env
from sample_factory.algo.utils.env_info import EnvInfo, extract_env_info
from sample_factory.utils.utils import log, stream_handler


def _env_info_in_this_process(cfg: Any) -> EnvInfo:
    env = make_env.make_env_func_batched(cfg, env_config=None)
    try:
        return extract_env_info(env, cfg)
    finally:
        env.close()


# An environment whose constructor raises left the parent waiting for its description for ever.
runner.obtain_env_info_in_a_separate_process = _env_info_in_this_process

# Gymnasium 1.0 wrappers no longer pass attributes on: a vectorised environment was taken for a single game.
make_env.BatchedListToDictWrapper.num_agents = property(lambda wrapper: wrapper.env.num_agents)
make_env.BatchedListToDictWrapper.is_multiagent = property(lambda wrapper: wrapper.env.is_multiagent)

# The batcher's thread kept a learner's process alive whose own thread had failed, and everybody waited for it.
learner_worker.Thread = partial(threading.Thread, daemon=True)

# `git diff` of whatever repository the process was started in has no place beside the checkpoints.
runner.save_git_diff = lambda directory: None

# Its hundreds of lines go to a file (sf_log.txt in the experiment's folder) instead of the terminal.
log.removeHandler(stream_handler)
log.addHandler(logging.NullHandler())

# It turns losses into floats without detaching them, which is harmless.
warnings.filterwarnings("ignore", message="Converting a tensor with requires_grad=True to a scalar")
