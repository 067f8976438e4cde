initialize_megatron(args_defaults={'no_load_rng': True, 'no_load_optim': True})
