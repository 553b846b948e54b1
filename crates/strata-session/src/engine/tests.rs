//! Tests of a session's calls of its layers, and of its state after a layer has refused a change.

use std::cell::RefCell;
use std::sync::mpsc::channel;
use std::sync::Mutex;

use strata_collect::Keep;
use strata_kernel::CallStacks;

use super::layers::LayerPlan;
use super::*;
use crate::plan::tracked::Tracked;
use crate::plan::{
    Action, Change, ChannelChange, ChannelOf, Condition, EnableEvents, How, Selection, Trigger,
};
use crate::record::command::CommandError;
use crate::report::gaps::Gap;
use crate::scratch_tests::Scratch;
use crate::session::control::controls;
use crate::session::layer::{Context, Inheritance, Layer, LayerEnd, ProcessLayer, Wanted};
use crate::session::lock::lock;
use crate::session::privileges::Work;
use crate::session::threads::{Ask, Cut};

/// The calls of layers, in order.
type Told = Arc<Mutex<Vec<String>>>;

/// A layer that notes its calls. It refuses rules that begin with `bad`.
struct Noted {
    name: &'static str,
    told: Told,
    steps: Told,
    was_changed: bool,
    is_again: bool,
}

impl Noted {
    fn note(&self, what: &str) {
        lock(&self.told).push(format!("{} {what}", self.name));
    }

    fn note_step(&self, what: &str) {
        lock(&self.steps).push(format!("{} {what}", self.name));
    }
}

impl ProcessLayer for Noted {
    fn inheritance(&self) -> Inheritance<'_> {
        Inheritance::default()
    }

    fn admit(&mut self, _: &mut crate::session::layer::Tell<'_>) {
        self.note_step("admit");
    }
}

impl Layer for Noted {
    fn rights(&self) -> Work {
        Work::Everything
    }

    fn start(&mut self) {
        self.note("start");
    }

    fn begun(&mut self, _: Option<&crate::record::command::Running>) {
        self.note_step("begun");
    }

    fn run(&mut self) {
        self.note_step("run");
    }

    fn processes(&mut self) -> Option<&mut dyn ProcessLayer> {
        Some(self)
    }

    fn is_broken(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Ask {
        Box::new(|_, _| std::sync::mpsc::channel().1)
    }

    fn rotate(&self) -> Cut {
        Box::new(|_| std::sync::mpsc::channel().1)
    }

    fn change(&mut self, wanted: &Wanted) -> Result<(), SessionError> {
        let rules: Vec<&str> = wanted.rules.iter().map(|rule| rule.text.as_str()).collect();
        if rules.contains(&"absent") && !self.is_again {
            return Err(SessionError::NothingSelected(Vec::new()));
        }
        // The first one of the kernel's layer makes it what it is.
        let is_first = self.name == "kernel" && !std::mem::replace(&mut self.was_changed, true);
        if !is_first && rules.iter().any(|rule| rule.starts_with("bad")) {
            return Err(SessionError::Unchangeable { layer: self.name });
        }
        let pids = wanted.tracked.pids.iter().flatten().map(u32::to_string);
        let uids = wanted.tracked.uids.iter().flatten().map(|uid| format!("uid{uid}"));
        let whom: Vec<String> = pids.chain(uids).collect();
        self.note(&format!("change {} of {}", rules.join(","), whom.join(",")));
        Ok(())
    }

    fn set_paused(&mut self, is_paused: bool) {
        self.note(if is_paused { "pause" } else { "resume" });
    }

    fn stop(&mut self) {
        self.note("stop");
    }

    fn join(&mut self) {}

    fn end(self: Box<Self>) -> LayerEnd {
        self.note("end");
        LayerEnd::default()
    }
}

struct Noting {
    told: Told,
    /// The calls after a layer's start.
    steps: Told,
    /// Where a stop is requested while a layer is made.
    stops: Rc<RefCell<Option<Stop>>>,
    /// True if the processes that are reported as absent exist.
    has_all: Rc<std::cell::Cell<bool>>,
}

impl Noting {
    fn new(told: &Told) -> Noting {
        Noting {
            told: Arc::clone(told),
            steps: Told::default(),
            stops: Rc::default(),
            has_all: Rc::default(),
        }
    }
}

impl LayerMaker for Noting {
    fn make(
        &self,
        asked: &LayerPlan<'_>,
        context: &Arc<Context>,
        _: &mut dyn FnMut(Notice),
    ) -> Result<Box<dyn Layer>, SessionError> {
        let LayerPlan { layer, options, wanted, .. } = *asked;
        let rules = options.rules.as_ref().map(|rules| rules.to_string()).unwrap_or_default();
        if rules.contains("absent") && !self.has_all.get() {
            return Err(SessionError::NothingSelected(Vec::new()));
        }
        assert!(matches!(context.keep, Keep::Hold));
        let (name, told, is_again) = (layer.name(), Arc::clone(&self.told), context.is_again);
        let steps = Arc::clone(&self.steps);
        let mut noted = Noted { name, told, steps, was_changed: false, is_again };
        noted.note(format!("make {rules}").trim_end());
        if layer == LayerOf::Kernel || wanted.is_more_than_rules() {
            noted.change(wanted)?;
        }
        self.stops.borrow().iter().for_each(|stop| stop.request(libc::SIGTERM));
        Ok(Box::new(noted))
    }
}

/// A flight recorder with such layers.
struct Bench {
    engine: Engine<'static>,
    told: Told,
    steps: Told,
    stops: Rc<RefCell<Option<Stop>>>,
    has_all: Rc<std::cell::Cell<bool>>,
}

impl Bench {
    fn new() -> Bench {
        let told = Told::default();
        let noting = Noting::new(&told);
        let (steps, stops) = (Arc::clone(&noting.steps), Rc::clone(&noting.stops));
        let (has_all, maker) = (Rc::clone(&noting.has_all), Rc::new(noting));
        let engine = Engine::new("b", Plan::new(true, None), false, maker, Arc::default()).unwrap();
        Bench { engine, told, steps, stops, has_all }
    }

    fn start(&mut self) -> Result<(), SessionError> {
        self.engine.start(&mut |_| ())
    }

    fn pause(&mut self) {
        self.engine.pause(&mut |_| ()).unwrap();
    }

    fn change(&mut self, change: &Change) -> Result<(), SessionError> {
        self.engine.change(change, &mut |_| ())
    }

    fn enable(&mut self, layer: LayerOf, rule: &str) -> Result<(), SessionError> {
        self.enable_in(layer, None, rule)
    }

    fn enable_in(
        &mut self,
        layer: LayerOf,
        channel: Option<&str>,
        rule: &str,
    ) -> Result<(), SessionError> {
        let channel = channel.map(str::to_owned);
        let (rules, filter, exclude) = (vec![rule.to_owned()], None, Vec::new());
        // Of the kernel's catalog nothing is asked here: the plan is changed itself.
        let change = Change::EnableEvent(EnableEvents {
            layer,
            channel,
            rules,
            filter,
            exclude,
            stack: CallStacks::None,
            sample: None,
            probe: false,
            slower_ns: None,
            every: None,
            at_most: None,
        });
        let plan = self.engine.plan.changed(&change)?;
        let records = self.engine.state == SessionState::Recording;
        self.engine.apply(plan, records, &mut |_| ())
    }

    /// Returns the reason for which the session would end now.
    fn end(&mut self) -> Option<EndReason> {
        let (shared, stop) = (Arc::clone(&self.engine.resources.context.shared), Stop::new());
        self.engine.watch(&shared, &stop).look(false, &mut |_| ())
    }

    /// Returns the calls of layers since the previous call.
    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.told))
    }
}

fn track(uids: &[u32]) -> Change {
    Change::Track(Tracked { uids: Some(uids.to_vec()), ..Tracked::default() })
}

#[test]
fn layers_are_made_at_the_first_start_and_resumed_at_the_next() {
    let mut bench = Bench::new();
    bench.enable(LayerOf::User, "a:*").unwrap();
    bench.enable(LayerOf::Kernel, "sched_*").unwrap();
    bench.enable(LayerOf::User, "b:*").unwrap();
    assert!(bench.told().is_empty());
    bench.start().unwrap();
    let made = [
        "kernel make",
        "kernel change sched_* of ",
        "user make a:*,b:*",
        "user start",
        "kernel start",
    ];
    assert_eq!(bench.told(), made);
    bench.start().unwrap();
    assert!(bench.told().is_empty());
    bench.pause();
    bench.pause();
    assert_eq!(bench.told(), ["user pause", "kernel pause"]);
    assert_eq!(bench.engine.status(None).state, SessionState::Stopped);
    bench.start().unwrap();
    assert_eq!(bench.told(), ["user resume", "kernel resume"]);
}

#[test]
fn rules_change_while_it_records_and_a_channel_more_is_a_layer_more() {
    let mut bench = Bench::new();
    bench.enable(LayerOf::User, "a:*").unwrap();
    bench.start().unwrap();
    bench.told();
    bench.enable(LayerOf::User, "b:*").unwrap();
    assert_eq!(bench.told(), ["user change a:*,b:* of "]);
    let channel = |name: &str| {
        Change::EnableChannel(ChannelChange {
            layer: LayerOf::User,
            channel: name.to_owned(),
            mode: None,
            subbuf_size: None,
            num_subbuf: Some(4),
            flush_ms: None,
        })
    };
    bench.change(&channel("more")).unwrap();
    // It selects nothing yet.
    assert!(bench.told().is_empty());
    bench.enable_in(LayerOf::User, Some("more"), "c:*").unwrap();
    assert_eq!(bench.told(), ["user make c:*", "user start"]);
    let off = ChannelOf { layer: LayerOf::User, channel: "more".to_owned() };
    bench.change(&Change::DisableChannel(off)).unwrap();
    assert_eq!(bench.told(), ["user pause"]);
    // Where it is stopped, nothing is made before it goes on, and what is disabled stays so.
    bench.pause();
    bench.enable(LayerOf::Kernel, "sched_*").unwrap();
    assert_eq!(bench.told(), ["user pause"]);
    bench.start().unwrap();
    let made = ["kernel make", "kernel change sched_* of ", "kernel start", "user resume"];
    assert_eq!(bench.told(), made);
    bench.change(&channel("more")).unwrap();
    assert_eq!(bench.told(), ["user resume"]);
}

#[test]
fn change_that_a_layer_refuses_leaves_the_plan_and_all_layers_as_they_were() {
    let mut bench = Bench::new();
    bench.enable(LayerOf::User, "a:*").unwrap();
    // It was made so, and can be told nothing more.
    bench.enable(LayerOf::Kernel, "bad_*").unwrap();
    bench.start().unwrap();
    bench.told();
    let before = bench.engine.plan.clone();
    let error = bench.change(&track(&[7])).unwrap_err();
    assert!(matches!(error, SessionError::Unchangeable { layer: "kernel" }), "{error}");
    assert_eq!(bench.told(), ["user change a:* of uid7", "user change a:* of "]);
    assert_eq!(bench.engine.plan, before);
    // So is a layer that cannot be made.
    let error = bench.enable_in(LayerOf::Kernel, Some("channel0"), "x").unwrap_err();
    assert!(matches!(error, SessionError::Unchangeable { .. }), "{error}");
    assert_eq!(bench.engine.plan, before);
    assert!(bench.told().is_empty());
}

#[test]
fn start_that_fails_makes_nothing_and_can_be_tried_again() {
    let mut bench = Bench::new();
    bench.enable(LayerOf::User, "a:*").unwrap();
    bench.enable(LayerOf::Kernel, "absent").unwrap();
    bench.start().unwrap_err();
    assert_eq!(bench.told(), ["kernel make"]);
    assert_eq!(
        (bench.engine.status(None).state, bench.engine.made.len()),
        (SessionState::Created, 0)
    );
    let all =
        crate::plan::DisableEvents { layer: LayerOf::Kernel, channel: None, rules: Vec::new() };
    bench.change(&Change::DisableEvent(all)).unwrap();
    bench.start().unwrap();
    assert_eq!(bench.told(), ["user make a:*", "user start"]);
}

#[test]
fn session_that_is_made_again_says_so_to_its_layers() {
    let mut bench = Bench::new();
    bench.engine.is_again = true;
    bench.enable(LayerOf::User, "a:*").unwrap();
    bench.enable(LayerOf::Kernel, "absent").unwrap();
    bench.start().unwrap();
    let made =
        ["kernel make", "kernel change absent of ", "user make a:*", "user start", "kernel start"];
    assert_eq!(bench.told(), made);
    // What is new is looked at all the same.
    let change = Change::EnableEvent(EnableEvents {
        layer: LayerOf::Kernel,
        channel: None,
        rules: vec!["uprobe:/no/such/file:f".into()],
        filter: None,
        exclude: Vec::new(),
        stack: CallStacks::None,
        sample: None,
        probe: true,
        slower_ns: None,
        every: None,
        at_most: None,
    });
    let error = bench.change(&change).unwrap_err();
    assert!(matches!(error, SessionError::OfRule { .. }), "{error}");
    assert!(bench.told().is_empty());
}

#[test]
fn session_ends_when_its_plan_says_and_its_time_counts_from_the_first_start() {
    let mut bench = Bench::new();
    bench.enable(LayerOf::User, "a:*").unwrap();
    bench.engine.plan.until.duration_ms = Some(3_600_000);
    assert_eq!(bench.end(), None, "it was not started");
    bench.start().unwrap();
    assert_eq!(bench.end(), None);
    // A pause is no end, and takes of the time.
    bench.pause();
    bench.engine.since = Instant::now().checked_sub(Duration::from_secs(3600));
    assert_eq!(bench.end(), Some(EndReason::Duration));
    bench.engine.plan.until.duration_ms = None;
    assert_eq!(bench.end(), None);
}

#[test]
fn command_starts_with_the_first_layers_and_no_other_layer_is_made_later() {
    let mut bench = Bench::new();
    bench.engine.plan.transient.command = vec!["true".into()];
    bench.engine.inherited = Some(Inherited::prepare().unwrap());
    bench.enable(LayerOf::User, "a:*").unwrap();
    bench.start().unwrap();
    let (shared, stop) = (Arc::clone(&bench.engine.resources.context.shared), Stop::new());
    let mut watch = bench.engine.watch(&shared, &stop);
    assert!(watch.command().is_some());
    let more = bench.enable(LayerOf::Kernel, "sched_*").unwrap_err();
    assert!(more.to_string().contains("when the command started"), "{more}");
    // What exists already can change.
    bench.enable(LayerOf::User, "b:*").unwrap();
    assert_eq!(bench.told(), ["user make a:*", "user start", "user change a:*,b:* of "]);
    // Nor is it accepted during a pause, after which the session could not go on.
    bench.pause();
    let more = bench.enable(LayerOf::Kernel, "sched_*").unwrap_err();
    assert!(more.to_string().contains("when the command started"), "{more}");
    bench.start().unwrap();
    assert_eq!(bench.told(), ["user pause", "user resume"]);
    // What a trigger runs is a child of the recorder, as the command is.
    let run = |name| add(name, None, vec![Action::Run { command: vec!["true".into()] }]);
    let refused = bench.change(&run("t")).unwrap_err();
    assert!(refused.to_string().contains("has a COMMAND"), "{refused}");
    bench.change(&add("u", None, vec![Action::Stop])).unwrap();
    assert_eq!(watch.wait(&mut |_| (), &mut |_| false), EndReason::Command);
    assert!(bench.engine.ends_when_full());
}

#[test]
fn stop_that_comes_while_layers_are_made_starts_no_command() {
    let mut bench = Bench::new();
    bench.engine.plan.transient.command = vec!["true".into()];
    bench.engine.inherited = Some(Inherited::prepare().unwrap());
    let stop = Stop::new();
    bench.engine.stop = Some(stop.clone());
    *bench.stops.borrow_mut() = Some(stop);
    bench.enable(LayerOf::User, "a:*").unwrap();
    // A kernel that may be missing is none of the reasons.
    bench.enable(LayerOf::Kernel, "sched_*").unwrap();
    let error = bench.engine.start_at_once(true, &mut |_| ()).unwrap_err();
    assert!(matches!(error, SessionError::Stopped(Some(libc::SIGTERM))), "{error}");
    assert!(!bench.engine.has_launched && bench.engine.begun.running.is_none());
    assert!(!bench.told().iter().any(|call| call.ends_with(" start")));
}

#[test]
fn command_that_is_not_there_is_the_error_where_the_kernel_may_be_missing_and_is() {
    let mut bench = Bench::new();
    bench.engine.plan.transient.command = vec!["/no/such/command".into()];
    bench.engine.inherited = Some(Inherited::prepare().unwrap());
    bench.enable(LayerOf::User, "a:*").unwrap();
    bench.enable(LayerOf::Kernel, "absent").unwrap();
    let error = bench.engine.start_at_once(true, &mut |_| ()).unwrap_err();
    assert!(matches!(error, SessionError::Command(CommandError::NotFound { .. })), "{error}");
}

#[test]
fn all_layers_run_before_any_of_them_searches_for_processes() {
    let mut bench = Bench::new();
    bench.enable(LayerOf::User, "a:*").unwrap();
    bench.enable(LayerOf::Kernel, "sched_*").unwrap();
    bench.start().unwrap();
    let steps = std::mem::take(&mut *lock(&bench.steps));
    let of: Vec<&str> = steps.iter().filter_map(|step| step.split(' ').nth(1)).collect();
    assert_eq!(of, ["begun", "begun", "run", "run", "admit", "admit"]);
}

#[test]
fn kernel_is_the_default_one_until_somebody_names_its_events() {
    let mut bench = Bench::new();
    bench.enable(LayerOf::Kernel, "sched_*").unwrap();
    bench.start().unwrap();
    let is_default = |bench: &Bench| bench.engine.made[0].is_kernel_by_default(&bench.engine.plan);
    assert!(!is_default(&bench));
    bench.engine.plan.transient.kernel_by_default = true;
    assert!(!is_default(&bench), "all processes are recorded");
    bench.engine.plan.transient.pids = vec![1];
    assert!(is_default(&bench));
    bench.enable(LayerOf::Kernel, "irq_*").unwrap();
    assert!(!is_default(&bench));
}

#[test]
fn many_requests_do_not_keep_a_session_from_its_end() {
    let (controls, orders) = controls();
    let mut bench = Bench::new();
    bench.enable(LayerOf::User, "a:*").unwrap();
    let stop = Stop::new();
    *bench.stops.borrow_mut() = Some(stop.clone());
    // The first one makes the layer, with which the stop comes.
    controls.post(ControlRequest::Start(channel().0));
    let ask = |_| {
        let (reply, answer) = channel();
        controls.post(ControlRequest::Status(reply));
        answer
    };
    let answers: Vec<_> = (0..1000).map(ask).collect();
    bench.engine.run(&stop, &orders, &mut |_| ());
    drop(orders);
    let answered = answers.iter().filter(|answer| answer.recv().is_ok()).count();
    assert_eq!(answered, REQUESTS_AT_ONCE - 1);
}

#[test]
fn what_options_do_not_say_a_layer_is_reported_before_it_starts() {
    let mut bench = Bench::new();
    bench.enable(LayerOf::User, "a:*").unwrap();
    bench.change(&track(&[7])).unwrap();
    bench.start().unwrap();
    assert_eq!(bench.told(), ["user make a:*", "user change a:* of uid7", "user start"]);
}

#[test]
fn buffers_of_a_channel_stay_as_they_were_made() {
    let mut bench = Bench::new();
    let sized = |bytes| {
        Change::EnableChannel(ChannelChange {
            layer: LayerOf::User,
            channel: "channel0".to_owned(),
            mode: None,
            subbuf_size: Some(bytes),
            num_subbuf: None,
            flush_ms: None,
        })
    };
    bench.change(&sized(4096)).unwrap();
    bench.enable(LayerOf::User, "a:*").unwrap();
    bench.change(&sized(8192)).unwrap();
    bench.start().unwrap();
    let text = bench.change(&sized(4096)).unwrap_err().to_string();
    assert!(text.contains("channel 'channel0': its loss mode"), "{text}");
    assert_eq!(bench.engine.status(None).channels[0].subbuf_size, 8192);
}

struct Ends<'a>(&'a Stop);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.request(0);
    }
}

#[test]
fn session_does_what_it_is_asked_until_somebody_ends_it() {
    let (controls, orders) = controls();
    let stop = Stop::new();
    let told = Told::default();
    let scratch = Scratch::new("standing");
    let report = std::thread::scope(|scope| {
        // Where this fails, the session ends all the same.
        let ends = Ends(&stop);
        let (stop, told) = (&stop, &told);
        let session = scope.spawn(move || {
            let noting = Noting::new(told);
            let (plan, memory) = (Plan::new(true, None), Arc::default());
            let engine = Engine::new("b", plan, false, Rc::new(noting), memory).unwrap();
            engine.run(stop, &orders, &mut |_| ()).report
        });
        assert_eq!(controls.status().unwrap().state, SessionState::Created);
        // Nothing is held, and no folder made.
        let path = scratch.0.join("none");
        assert_eq!((controls.snapshot(&path, None).unwrap().records, path.exists()), (0, false));
        controls.start().unwrap();
        let text = controls.change(Change::Replace(Box::new(Plan::new(true, None)))).unwrap_err();
        assert!(text.contains("started already"), "{text}");
        controls.pause().unwrap();
        let status = controls.status().unwrap();
        assert_eq!(
            (status.state, status.mode, status.output),
            (SessionState::Stopped, "snapshot", None)
        );
        assert_eq!(controls.plan().unwrap(), Plan::new(true, None));
        drop(ends);
        session.join().unwrap()
    });
    assert_eq!((report.end, report.snapshots), (EndReason::Asked(None), Some(0)));
    assert_eq!(controls.status().unwrap().state, SessionState::Stopping);
}

/// Returns a trigger that waits for events of this rule, or without a rule for the end of a program.
fn trigger(name: &str, rule: Option<&str>, actions: Vec<Action>) -> Trigger {
    let when = match rule {
        None => Condition::Ended { how: How::Any },
        Some(rule) => Condition::Event {
            selection: Selection { layer: LayerOf::User, rule: rule.into(), filter: None },
        },
    };
    Trigger { name: name.into(), when, actions, pause_ms: 10_000, times: None }
}

fn add(name: &str, rule: Option<&str>, actions: Vec<Action>) -> Change {
    Change::AddTrigger(Box::new(trigger(name, rule, actions)))
}

#[test]
fn trigger_has_a_layer_of_its_own_which_neither_starts_nor_pauses_with_the_session() {
    let mut bench = Bench::new();
    bench.enable(LayerOf::User, "a:*").unwrap();
    bench.change(&add("t", Some("b:*"), vec![Action::Start])).unwrap();
    assert_eq!(bench.told(), ["user make b:*", "user start"]);
    bench.start().unwrap();
    assert_eq!(bench.told(), ["user make a:*", "user start"]);
    bench.pause();
    assert_eq!(bench.told(), ["user pause"]);
    // Whom the session tracks, its triggers do.
    bench.change(&track(&[7])).unwrap();
    assert_eq!(bench.told(), ["user change a:* of uid7", "user change b:* of uid7"]);
    let status = bench.engine.status(None);
    assert_eq!((status.channels.len(), status.triggers[0].fired), (1, 0));
    bench.change(&Change::RemoveTrigger("t".into())).unwrap();
    assert_eq!(bench.told(), ["user stop", "user end"]);
    assert!(bench.engine.status(None).triggers.is_empty());
}

#[test]
fn trigger_for_an_end_says_that_no_program_is_recorded_which_could_end() {
    let mut bench = Bench::new();
    bench.enable(LayerOf::Kernel, "sched_switch").unwrap();
    bench.change(&add("e", None, vec![Action::Stop])).unwrap();
    let lacks = |bench: &Bench| {
        let status = bench.engine.status(None);
        (status.triggers[0].lacks.is_some(), status.gaps.contains(&Gap::Triggers))
    };
    assert_eq!(lacks(&bench), (false, false), "rules may come");
    bench.start().unwrap();
    assert_eq!(lacks(&bench), (true, true));
    bench.enable(LayerOf::User, "a:*").unwrap();
    assert_eq!(lacks(&bench), (false, false));
}

#[test]
fn trigger_that_cannot_be_made_leaves_no_other_one_behind() {
    let mut bench = Bench::new();
    let (one, bad) = (
        add("one", Some("a:*"), vec![Action::Start]),
        add("x", Some("absent:*"), vec![Action::Stop]),
    );
    bench.change(&Change::Several(vec![one.clone(), bad])).unwrap_err();
    assert_eq!(bench.told(), ["user make a:*", "user start", "user stop", "user end"]);
    assert!(bench.engine.status(None).triggers.is_empty());
    // A plan whose other part is refused, too.
    bench.enable(LayerOf::User, "a:*").unwrap();
    bench.start().unwrap();
    bench.told();
    let disabled = Change::EnableEvent(EnableEvents {
        layer: LayerOf::User,
        channel: None,
        rules: vec!["bad:*".into()],
        filter: None,
        exclude: Vec::new(),
        stack: CallStacks::None,
        sample: None,
        probe: false,
        slower_ns: None,
        every: None,
        at_most: None,
    });
    bench.change(&Change::Several(vec![one, disabled])).unwrap_err();
    assert_eq!(bench.told(), ["user make a:*", "user start", "user stop", "user end"]);
}

#[test]
fn trigger_whose_events_have_gone_stays_where_it_was_killed_and_fires_when_they_are_there_again() {
    let mut plan = Plan::new(true, None);
    let silence = Condition::Silence {
        selection: Selection { layer: LayerOf::User, rule: "absent:*".into(), filter: None },
        ms: 500,
    };
    let gone = trigger("gone", Some("absent:*"), vec![Action::Stop]);
    let silent = Trigger { when: silence, ..trigger("silent", None, vec![Action::Stop]) };
    plan.triggers = vec![gone, trigger("there", Some("b:*"), vec![Action::Start]), silent];
    let mut new = Bench::new();
    assert!(new.engine.begin_triggers(&plan, false, &mut |_| ()).is_err());
    assert!(new.engine.status(None).triggers.is_empty());
    let mut bench = Bench::new();
    bench.engine.plan = plan;
    bench.engine.begin_triggers(&bench.engine.plan.clone(), true, &mut |_| ()).unwrap();
    assert_eq!(bench.told(), ["user make b:*", "user start"]);
    let lacks = |bench: &Bench| -> Vec<(String, bool)> {
        let triggers = bench.engine.status(None).triggers;
        triggers.into_iter().map(|one| (one.trigger.name, one.lacks.is_some())).collect()
    };
    let of = |gone| [("gone", gone), ("there", false), ("silent", gone)];
    let of = |gone| of(gone).map(|(name, lacks)| (name.to_owned(), lacks));
    assert_eq!(lacks(&bench), of(true));
    assert!(bench.engine.status(None).gaps.contains(&Gap::Triggers));
    let reports: Vec<_> =
        bench.engine.status(None).triggers.iter().filter_map(TriggerStatus::report).collect();
    assert_eq!(reports.iter().filter(|one| one.lacks.is_some()).count(), 2, "{reports:?}");
    // Nobody looks for these events, which is no silence. Time: longer than that of the trigger.
    std::thread::sleep(Duration::from_millis(600));
    bench.engine.look_around(0, &mut |_| ());
    assert!(bench.engine.status(None).triggers.iter().all(|one| one.fired == 0));
    // They are looked for with each change, and at a start; one that is new is refused all the same.
    bench.change(&track(&[7])).unwrap();
    assert_eq!(lacks(&bench), of(true));
    bench.change(&add("more", Some("absent:x"), vec![Action::Stop])).unwrap_err();
    bench.has_all.set(true);
    bench.told();
    bench.start().unwrap();
    assert_eq!(lacks(&bench), of(false));
    let told = bench.told();
    let made = told.iter().filter(|one| one.starts_with("user make absent:*")).count();
    assert_eq!(made, 2, "{told:?}");
    bench.change(&Change::RemoveTrigger("gone".into())).unwrap();
    assert_eq!(bench.engine.status(None).triggers.len(), 2);
}

#[test]
fn signal_runs_a_command_with_the_names_of_session_and_trigger_once_at_a_time() {
    let scratch = Scratch::new("run");
    std::fs::create_dir_all(&scratch.0).unwrap();
    let said = scratch.0.join("said");
    let text = format!("echo $STRATA_SESSION_NAME $STRATA_TRIGGER >>{}; sleep 100", said.display());
    let command = vec!["sh".to_owned(), "-c".to_owned(), text];
    let mut of_signal = trigger("t", None, vec![Action::Run { command }]);
    (of_signal.when, of_signal.pause_ms) = (Condition::Signal, 0);
    let mut bench = Bench::new();
    bench.change(&Change::AddTrigger(Box::new(of_signal))).unwrap();
    let mut look = |signals| {
        bench.engine.look_around(signals, &mut |_| ());
        let status = bench.engine.status(None).triggers.remove(0);
        (status.fired, status.suppressed, status.error)
    };
    assert_eq!(look(0), (0, 0, None));
    assert_eq!(look(2), (1, 1, None));
    let begun = Instant::now();
    while std::fs::read_to_string(&said).unwrap_or_default() != "b t\n" {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
    let (fired, _, error) = look(3);
    let error = error.unwrap();
    assert!(fired == 2 && error.contains("still runs, as process "), "{error}");
    let pid: i32 = error.rsplit(' ').next().unwrap().parse().unwrap();
    // SAFETY: no pointers; the group of a child of this test.
    assert_eq!(unsafe { libc::kill(-pid, libc::SIGKILL) }, 0);
    while look(3).2.is_none_or(|text| !text.contains("signal: 9")) {
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    assert_eq!(std::fs::read_to_string(&said).unwrap(), "b t\n");
}
