package supervise

import (
	"fmt"
	"time"
)

// Restart says when a component that has ended is started again.
type Restart uint8

// The kinds of components.
const (
	// Permanent components always run: they are restarted after an error, a
	// panic, and also when Run returned nil without having been asked to stop.
	Permanent Restart = iota
	// Transient components are restarted after an error or a panic. nil is final.
	Transient
	// Temporary components are never restarted. An error before the component
	// was ready fails the branch, because nothing can be built on it; a later
	// one is only reported.
	Temporary
)

// String returns the lower-case name.
func (r Restart) String() string {
	return [...]string{"permanent", "transient", "temporary"}[r]
}

// Defaults of Policy and Spec.
const (
	DefaultMin         = 100 * time.Millisecond
	DefaultMax         = 10 * time.Second
	DefaultMaxRestarts = 10
	DefaultWithin      = time.Minute
	DefaultHealthy     = 30 * time.Second
	DefaultStopTimeout = 10 * time.Second
)

// Policy is how patient a supervisor is. The zero value is the documented
// default.
type Policy struct {
	// Min and Max bound the ceiling of the random pause before a restart: Min
	// for the first, doubled for each further one, never above Max. Zero means
	// 100 ms and 10 s.
	Min, Max time.Duration
	// MaxRestarts is the number of restarts allowed within Within; the failure
	// after that gives the component up. Zero means 10, a negative value allows
	// none.
	MaxRestarts int
	// Within is the window that MaxRestarts counts in. Zero means 1 minute.
	Within time.Duration
	// Healthy is how long an incarnation must have been ready for its failure to
	// count as the first one again. Zero means 30 s.
	Healthy time.Duration
}

func (p Policy) withDefaults() Policy {
	p.Min = orDefault(p.Min, DefaultMin)
	p.Max = orDefault(p.Max, max(DefaultMax, p.Min))
	p.Within = orDefault(p.Within, DefaultWithin)
	p.Healthy = orDefault(p.Healthy, DefaultHealthy)
	if p.MaxRestarts == 0 {
		p.MaxRestarts = DefaultMaxRestarts
	}
	return p
}

func (p Policy) validate() error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Min", p.Min}, {"Max", p.Max}, {"Within", p.Within}, {"Healthy", p.Healthy}} {
		if f.value < 0 {
			return fmt.Errorf("supervise: Policy.%s is %s: it must not be negative; 0 means the default", f.name, f.value)
		}
	}
	if p.Max < p.Min {
		return fmt.Errorf("supervise: Policy.Max (%s) is below Policy.Min (%s): raise Max", p.Max, p.Min)
	}
	return nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}
