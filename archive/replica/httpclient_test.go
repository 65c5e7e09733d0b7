package replica

import "net/http"

// httpForTests keeps no connections, so that none is left when a test ends.
var httpForTests = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
