def InferRules(init_obs, task):
    return ''


def WrapStep(env, init_obs, task, agent_action, logger):
    obs, reward, done = env.step(agent_action)
    return obs, reward, done
