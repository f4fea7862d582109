package figures

import (
	"fmt"
	"path/filepath"
	"strings"

	"gonum.org/v1/gonum/stat"
)

// fewest is the smallest number of seeds for which a figure is shown: one or two runs say little.
const fewest = 3

// readLogs reads all logs of a folder, by the name before ".jsonl".
func readLogs(dir string) (map[string][]*Line, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s: no logs (%v); run the command in the root of the repository", dir, err)
	}
	logs := map[string][]*Line{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		if logs[name], err = ReadLog(file); err != nil {
			return nil, err
		}
	}
	return logs, nil
}

// value is a figure with its spread: a standard deviation of ours, a standard error of a paper's. An unknown one
// has no seeds.
type value struct {
	mean, spread float64
	seeds        int
}

// String is the figure as tables show it, a dash if it is unknown.
func (v value) String() string {
	switch {
	case v.seeds == 0:
		return "–"
	case v.spread == 0:
		return fmt.Sprintf("%.3f", v.mean)
	}
	return fmt.Sprintf("%.3f ± %.3f", v.mean, v.spread)
}

// Known says whether there is a figure.
func (v value) Known() bool { return v.seeds > 0 }

// Mean is the figure without its spread.
func (v value) Mean() string {
	v.spread = 0
	return v.String()
}

// Tenths is the figure without its spread, for large ones.
func (v value) Tenths() string {
	if v.seeds == 0 {
		return v.String()
	}
	return fmt.Sprintf("%.1f", v.mean)
}

// Whole is a count.
func (v value) Whole() string {
	if v.seeds == 0 {
		return v.String()
	}
	return fmt.Sprintf("%.0f", v.mean)
}

// measured is a figure of a case over its seeds; unknown if there are too few. Real rows are the same for all
// seeds.
func measured(logs map[string][]*Line, log, group, name, figure string, null bool) value {
	var all []float64
	for _, o := range succeeded(logs[log], group, name, null) {
		if v, has := o.Figures[figure]; has {
			all = append(all, v)
		}
	}
	switch {
	case name == RealRows && len(all) > 0:
		return value{mean: all[0], seeds: 1}
	case len(all) < fewest:
		return value{}
	}
	return value{mean: stat.Mean(all, nil), spread: stat.StdDev(all, nil), seeds: len(all)}
}

// once is a figure of the first seed of a case. It is for what takes too long to repeat; pages say so beside it.
func once(logs map[string][]*Line, log, group, name, figure string, null bool) value {
	for _, o := range succeeded(logs[log], group, name, null) {
		if v, has := o.Figures[figure]; has {
			return value{mean: v, seeds: 1}
		}
	}
	return value{}
}

// succeeded returns the outcomes of a case that did not fail.
func succeeded(log []*Line, group, name string, null bool) (all []*Line) {
	for _, o := range log {
		if o.Group == group && o.Case == name && o.Null == null && o.Failed == "" {
			all = append(all, o)
		}
	}
	return all
}

// seconds is the mean time of a case's runs until their files were written, as a clock on the wall shows it.
func seconds(log []*Line, group, name string) string {
	return meanSeconds(log, group, name, func(o *Line) float64 { return o.Seconds })
}

// processor is the mean time of all cores in place of that.
func processor(log []*Line, group, name string) string {
	return meanSeconds(log, group, name, func(o *Line) float64 { return o.Processor })
}

func meanSeconds(log []*Line, group, name string, of func(*Line) float64) string {
	var all []float64
	for _, o := range succeeded(log, group, name, false) {
		if s := of(o); s > 0 {
			all = append(all, s)
		}
	}
	if len(all) < fewest {
		return "–"
	}
	return fmt.Sprintf("%.0f", stat.Mean(all, nil))
}

// machine says on what the runs of a group were measured; empty in logs that do not have it.
func machine(log []*Line, group string) string {
	for _, o := range log {
		if o.Group == group {
			return o.Machine
		}
	}
	return ""
}

// failures says which runs of a log failed, how often and why.
func failures(log []*Line) (all []string) {
	times := map[string]int{}
	for _, o := range log {
		if o.Failed == "" {
			continue
		}
		why := fmt.Sprintf("%s, %s: %s", o.Group, o.Case, o.Failed)
		if times[why]++; times[why] == 1 {
			all = append(all, why)
		}
	}
	for i, why := range all {
		all[i] = fmt.Sprintf("%s (runs: %d)", why, times[why])
	}
	return all
}
