package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/conclave-dp/conclave/internal/logging"
	"github.com/conclave-dp/conclave/internal/progress"
	"github.com/conclave-dp/conclave/internal/run"
	"github.com/conclave-dp/conclave/internal/student"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

const runsUsage = `usage: conclave run submit --config student.yaml [--overcommit] run.yaml
       conclave run list   --config student.yaml [--dataset NAME]
       conclave run show   --config student.yaml NAME
       conclave run cancel --config student.yaml [--force] NAME
       conclave run watch  --config student.yaml NAME
Workers take runs from the queue: student --config FILE, with queue: true in the file.
exit codes: 0 done, 1 failed or interrupted, 2 wrong usage, 3 out of budget (submit, watch), 4 cancelled (watch)`

func runs(ctx context.Context, args []string) error {
	return among(ctx, args, runsUsage, map[string]commandFunc{
		"submit": submitRun, "list": listRuns, "show": showRun, "cancel": cancelRun, "watch": watchRun,
	})
}

// Exit codes of commands about runs, besides those of all commands.
const (
	codeOutOfBudget = 3
	codeCancelled   = 4
)

// codeError ends the command with an exit code of its own.
type codeError struct {
	code int
	error
}

func (e *codeError) Unwrap() error { return e.error }

// queueFlags are those of all commands about runs.
type queueFlags struct {
	*flag.FlagSet
	config, logLevel string
	format           *string
}

func newQueueFlags(name, usage string) *queueFlags {
	f := &queueFlags{FlagSet: flags("run "+name, "run "+name+" --config student.yaml "+usage)}
	f.StringVar(&f.config, "config", "", "a student's YAML file: where the aggregator is, the dataset, and the certificate")
	f.StringVar(&f.logLevel, "log-level", "error", "what is logged to standard error: debug, info, warn or error (or set CONCLAVE_LOG_LEVEL)")
	f.format = formatFlag(f.FlagSet)
	return f
}

// parse takes flags and, before, between or behind them, one argument where argument says
// what it is.
func (f *queueFlags) parse(args []string, argument string) (given string, err error) {
	var options, rest []string
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") || args[i] == "-" {
			rest = append(rest, args[i])
			continue
		}
		options = append(options, args[i])
		name := strings.TrimLeft(args[i], "-")
		known := f.Lookup(name)
		if known == nil {
			continue
		}
		if b, ok := known.Value.(interface{ IsBoolFlag() bool }); (!ok || !b.IsBoolFlag()) && i+1 < len(args) {
			i++
			options = append(options, args[i])
		}
	}
	if err := parse(f.FlagSet, options); err != nil {
		return "", err
	}
	if err := fromEnvironment(f.FlagSet, "log-level"); err != nil {
		return "", err
	}
	switch {
	case f.config == "":
		return "", misuse(f.FlagSet, "--config: name a student's YAML file")
	case argument == "" && len(rest) > 0:
		return "", misuse(f.FlagSet, "unexpected argument %q", rest[0])
	case argument == "":
		return "", nil
	case len(rest) != 1:
		return "", misuse(f.FlagSet, "give %s, once", argument)
	}
	return rest[0], nil
}

// queue dials the aggregator. The dataset is that of the file.
func (f *queueFlags) queue() (queue *student.Queue, dataset string, err error) {
	config, err := student.LoadConnection(f.config)
	if err != nil {
		return nil, "", err
	}
	log, err := logging.New(logging.Config{Level: f.logLevel, Format: logging.Auto})
	if err != nil {
		return nil, "", misuse(f.FlagSet, "--log-level %q: use debug, info, warn or error", f.logLevel)
	}
	client, err := student.Dial(config, log)
	if err != nil {
		return nil, "", err
	}
	return client.Queue(), config.Dataset, nil
}

// open takes flags and one argument as parse does, and dials as queue does.
func (f *queueFlags) open(args []string, argument string) (given string, queue *student.Queue, dataset string, err error) {
	if given, err = f.parse(args, argument); err != nil {
		return "", nil, "", err
	}
	queue, dataset, err = f.queue()
	return given, queue, dataset, err
}

func submitRun(ctx context.Context, args []string) error {
	f := newQueueFlags("submit", "[--overcommit] run.yaml")
	overcommit := f.Bool("overcommit", false, "queue it also where it would not fit if all runs before it spend what they may; it ends as out of budget, at no cost, if they do")
	path, queue, dataset, err := f.open(args, "the path of a run.yaml")
	if err != nil {
		return err
	}
	defer queue.Close()
	submission, job, err := run.NewSubmission(path)
	if err != nil {
		return err
	}
	r, err := queue.Submit(ctx, &conclavev1.SubmitRunRequest{
		Spec:    job.Plan.RunSpec(job.Spec, job.Schema, dataset, false),
		RunYaml: submission.RunFile, SchemaYaml: submission.Schema, Overcommit: *overcommit,
	})
	if errors.Is(err, student.ErrOverBudget) {
		return &codeError{codeOutOfBudget, err}
	}
	if err != nil {
		return err
	}
	if *f.format == "json" {
		return printJSON(submittedRun{runOf(r.GetRun()), r.GetExisting(), r.GetFits(), r.GetEpsilonLeft(), budgetOf(r.GetBudget())})
	}
	what := "queued"
	if r.GetExisting() {
		what = "in the queue's books already"
	}
	fmt.Printf("%s is %s on dataset %s: %s\n", r.GetRun().GetName(), what, dataset, standing(r.GetRun()))
	fmt.Println(budgetText(r.GetBudget()))
	fmt.Printf("one more run at delta %g could have epsilon %.6g\n", r.GetRun().GetDelta(), r.GetEpsilonLeft())
	if !r.GetFits() {
		fmt.Println("it does not fit if all runs before it spend what they may: it ends as out of budget then, and nothing is spent for it")
	}
	if r.GetRun().GetState() == conclavev1.RunState_RUN_STATE_WAITING && r.GetBudget().GetWorkers() == 0 {
		fmt.Println("no worker is connected: it waits until one is (student --config FILE, with queue: true)")
	}
	return nil
}

func listRuns(ctx context.Context, args []string) error {
	f := newQueueFlags("list", "[--dataset NAME]")
	dataset := f.String("dataset", "", "runs of this dataset only; of all that the aggregator serves, if this is left out")
	_, queue, _, err := f.open(args, "")
	if err != nil {
		return err
	}
	defer queue.Close()
	all, budgets, err := queue.List(ctx, *dataset)
	if err != nil {
		return err
	}
	if *f.format == "json" {
		list := runList{Runs: []runStatus{}}
		for _, r := range all {
			list.Runs = append(list.Runs, runOf(r))
		}
		for _, b := range budgets {
			list.Datasets = append(list.Datasets, budgetOf(b))
		}
		return printJSON(list)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tDATASET\tSTATE\tPIPELINE\tEPSILON\tROUNDS\tBY\tSUBMITTED\tWORKER\tREASON")
	for _, r := range all {
		reason := r.GetReason()
		if !r.GetQueued() {
			reason = "opened by a student, not of the queue"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.4g/%g\t%d\t%s\t%s\t%s\t%s\n", r.GetName(), r.GetDataset(), stateText(r.GetState()), r.GetPipeline(),
			r.GetEpsilonSpent(), r.GetEpsilon(), r.GetRounds(), dash(r.GetBy()), dash(r.GetSubmitted()), dash(r.GetWorker()), dash(reason))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, b := range budgets {
		fmt.Println(budgetText(b))
	}
	return nil
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func showRun(ctx context.Context, args []string) error {
	f := newQueueFlags("show", "NAME")
	name, queue, _, err := f.open(args, "the name of a run")
	if err != nil {
		return err
	}
	defer queue.Close()
	r, err := queue.Show(ctx, name)
	if err != nil {
		return err
	}
	if *f.format == "json" {
		shown := shownRun{runStatus: runOf(r.GetRun()), RunYAML: string(r.GetRunYaml())}
		if p := r.GetProgress(); p.GetRounds() > 0 {
			shown.Progress = progressOf(p)
		}
		return printJSON(shown)
	}
	printRun(r.GetRun(), r.GetProgress())
	return nil
}

func cancelRun(ctx context.Context, args []string) error {
	f := newQueueFlags("cancel", "[--force] NAME")
	force := f.Bool("force", false, "also one that another student submitted, or that a student opened outside of the queue: that one may still be at work")
	name, queue, _, err := f.open(args, "the name of a run")
	if err != nil {
		return err
	}
	defer queue.Close()
	r, err := queue.Cancel(ctx, name, *force)
	if err != nil {
		return err
	}
	if *f.format == "json" {
		return printJSON(runOf(r))
	}
	switch {
	case !r.GetQueued():
		fmt.Printf("%s is closed; a student that still works on it gets no more answers\n", name)
	default:
		fmt.Printf("%s is cancelled\n", name)
	}
	if r.GetOpened() {
		fmt.Printf("epsilon %.4g in %d rounds was spent and stays spent; its last entry in the ledger is %s\n", r.GetEpsilonSpent(), r.GetRounds(), r.GetLedgerHead())
	} else {
		fmt.Println("it had not begun, and nothing was spent")
	}
	return nil
}

func watchRun(ctx context.Context, args []string) error {
	f := newQueueFlags("watch", "NAME")
	name, queue, _, err := f.open(args, "the name of a run")
	if err != nil {
		return err
	}
	defer queue.Close()
	display := progress.New(os.Stderr)
	defer func() { display.Close() }()
	said := ""
	var problem error
	last, err := queue.Watch(ctx, name, func(m *conclavev1.WatchRunResponse) {
		if *f.format == "json" {
			line := shownRun{runStatus: runOf(m.GetRun())}
			if m.GetProgress().GetRounds() > 0 {
				line.Progress = progressOf(m.GetProgress())
			}
			problem = errors.Join(problem, printJSON(line))
			return
		}
		if now := standing(m.GetRun()); now != said {
			display.Close() // a bar and lines would mix
			display = progress.New(os.Stderr)
			fmt.Fprintf(os.Stderr, "%s: %s\n", name, now)
			said = now
		}
		if p := m.GetProgress(); p.GetRounds() > 0 && m.GetRun().GetState() == conclavev1.RunState_RUN_STATE_RUNNING {
			display.Update(run.Status{
				Round: int(p.GetRound()), Rounds: int(p.GetRounds()), Of: p.GetOf(), EpsilonSpent: p.GetEpsilonSpent(), Epsilon: p.GetEpsilon(),
				Waiting: p.GetWaiting(), Part: p.GetPart(), Halted: p.GetHalted(),
			})
		}
	})
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted; the run goes on")
	}
	if err = errors.Join(err, problem); err != nil {
		return err
	}
	ended := fmt.Errorf("run %s: %s", name, standing(last))
	switch last.GetState() {
	case conclavev1.RunState_RUN_STATE_OUT_OF_BUDGET:
		return &codeError{codeOutOfBudget, ended}
	case conclavev1.RunState_RUN_STATE_CANCELLED:
		return &codeError{codeCancelled, ended}
	case conclavev1.RunState_RUN_STATE_FAILED:
		return ended
	}
	if *f.format != "json" {
		display.Close()
		display = progress.New(os.Stderr)
		printRun(last, nil)
	}
	return nil
}

// standing says in one line how a run stands.
func standing(r *conclavev1.RunStatus) string {
	parts := []string{stateText(r.GetState())}
	switch {
	case r.GetState() == conclavev1.RunState_RUN_STATE_WAITING:
		parts = append(parts, fmt.Sprintf("number %d in line", r.GetPlace()))
	case r.GetState() == conclavev1.RunState_RUN_STATE_RUNNING && r.GetWorker() != "":
		parts = append(parts, "at worker "+r.GetWorker())
	}
	if r.GetReason() != "" {
		parts = append(parts, r.GetReason())
	}
	return strings.Join(parts, ", ")
}

func stateText(s conclavev1.RunState) string { return strings.ReplaceAll(stateName(s), "_", " ") }

// budgetText says in one line how a dataset's budget stands.
func budgetText(b *conclavev1.DatasetBudget) string {
	return fmt.Sprintf("dataset %s: epsilon %g at delta %g (%s); spent %.4g; %.4g with all that %d open and %d waiting runs may still spend; left for one more run: %.6g",
		b.GetDataset(), b.GetEpsilon(), b.GetDelta(), b.GetFilter(), b.GetEpsilonSpent(), b.GetEpsilonReserved(), b.GetOpen(), b.GetWaiting(), b.GetEpsilonLeft())
}

// printRun prints all that is known of a run.
func printRun(r *conclavev1.RunStatus, p *conclavev1.RunProgress) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	line := func(field, format string, args ...any) {
		fmt.Fprintf(w, "%s\t"+format+"\n", append([]any{field}, args...)...)
	}
	line("name", "%s", r.GetName())
	line("dataset", "%s", r.GetDataset())
	line("state", "%s", standing(r))
	line("pipeline", "%s, %d teachers", r.GetPipeline(), r.GetTeachers())
	line("budget", "epsilon %g, delta %g", r.GetEpsilon(), r.GetDelta())
	line("spent", "epsilon %.4g in %d rounds", r.GetEpsilonSpent(), r.GetRounds())
	if r.GetQueued() {
		line("submitted", "%s by %s", r.GetSubmitted(), r.GetBy())
	} else {
		line("opened", "%s by %s, not through the queue", dash(r.GetSubmitted()), dash(r.GetBy()))
	}
	if r.GetWorker() != "" {
		connected := ", not connected"
		switch {
		case r.GetEnded() != "":
			connected = "" // nobody waits for it any more
		case r.GetConnected():
			connected = ", connected"
		}
		line("worker", "%s of %s%s; taken %d times, last at %s", r.GetWorker(), r.GetHolder(), connected, r.GetClaims(), r.GetClaimed())
	}
	if p.GetRounds() > 0 {
		of := p.GetOf()
		if of == "" {
			of = "round"
		}
		line("progress", "%s", strings.Join(slices.DeleteFunc([]string{fmt.Sprintf("%s %d of %d", of, p.GetRound(), p.GetRounds()), p.GetWaiting(), p.GetPart()}, func(s string) bool { return s == "" }), ", "))
	}
	if r.GetEnded() != "" {
		line("ended", "%s", r.GetEnded())
	}
	switch {
	case r.GetClosed():
		line("ledger", "closed with %s", r.GetLedgerHead())
	case r.GetOpened():
		line("ledger", "open")
	default:
		line("ledger", "not opened; nothing was spent")
	}
	for _, f := range r.GetResults() {
		line(f.GetName(), "%s sha256:%s", f.GetPath(), f.GetSha256())
	}
	_ = w.Flush()
}
