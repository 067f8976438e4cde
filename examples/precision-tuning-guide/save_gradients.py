import numpy as np

def get_parameters(self):
    params = []
    grad_id = 0
    for param_group in self.optimizer.param_groups:
        for param in param_group['params']:
            params.append(param)
            grad_id += 1
            # 嵌入式修改,将torch的梯度保存为numpy
            np.save(f"xx/grad_{grad_id}.npy", param)
    return params
