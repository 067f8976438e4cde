import numpy as np
import random
from mindspore import context

def seed_all(seed=42):
    random.seed(seed)
    os.environ['PYTHONHASHSEED'] = str(seed)
    np.random.seed(seed)
    context.set_context(deterministic="ON")

def main(config):
    seed_all()
    # 原始代码
