package replica

// childEnv names the directory of the node that a re-executed test binary runs.
const childEnv = "EVTLOG_TEST_NODE_DIR"

func runChild(string) {}
