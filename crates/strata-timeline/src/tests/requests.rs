//! Checks which waits are reported as ended by a request to a disk.

use super::*;

fn place(sector: i64) -> DiskPlace {
    DiskPlace { device: 254 << 20, sector, sectors: 8 }
}

impl Machine {
    fn issue(&mut self, time: i64, sector: i64) -> &mut Machine {
        self.tell(
            time,
            1,
            9,
            Fact::Issue { place: place(sector), kind: RecordText::Is("R"), bits: None },
        )
    }

    fn complete(&mut self, time: i64, cpu: u32, by: i64, sector: i64) -> &mut Machine {
        self.tell(time, cpu, by, Fact::Complete { place: place(sector), error: None })
    }
}

/// Returns a machine on which 5 and 6 are blocked while two requests are open.
fn blocked_for() -> Machine {
    let mut machine = Machine::new();
    machine.enter(1, 0, 5, "read", Object::None).switch(2, 0, 5, 2, 6);
    machine.enter(3, 0, 6, "fsync", Object::None).switch(4, 0, 6, 2, 0);
    machine.issue(5, 100).issue(6, 200);
    machine
}

fn waits(machine: &mut Machine) -> Vec<String> {
    let lines = machine.finish().lines.iter();
    lines.filter(|line| line.contains(": for ")).cloned().collect()
}

#[test]
fn wait_is_ended_by_the_request_that_its_interrupt_has_reported_last_is_done() {
    let mut machine = blocked_for();
    machine.tell(10, 0, 0, Fact::SoftirqEnter(4));
    machine.complete(11, 0, 0, 100).waking(12, 0, 0, 6);
    machine.complete(13, 0, 0, 200).waking(14, 0, 0, 5).tell(15, 0, 0, Fact::SoftirqLeave);
    assert_eq!(waits(&mut machine), ["6: for 100", "5: for 200"]);
    // In the interrupt of the device itself, too.
    let mut machine = blocked_for();
    machine.tell(10, 0, 0, Fact::InterruptEnter(36, RecordText::Is("disk")));
    machine.complete(11, 0, 0, 100).waking(12, 0, 0, 5);
    assert_eq!(waits(&mut machine), ["5: for 100"]);
}

#[test]
fn wait_that_ends_elsewhere_than_in_the_interrupt_of_a_request_is_for_none() {
    // A part of it is done; another interrupt; that one is over; another CPU; a timer; no interrupt; discarded records.
    type Told = dyn Fn(&mut Machine);
    const PART: DiskPlace = DiskPlace { device: 254 << 20, sector: 100, sectors: 4 };
    let all: [&Told; 8] = [
        &|it| {
            it.tell(10, 0, 0, Fact::SoftirqEnter(4));
            it.tell(11, 0, 0, Fact::Complete { place: PART, error: None }).waking(12, 0, 0, 5);
        },
        &|it| {
            it.tell(10, 0, 0, Fact::SoftirqEnter(4)).complete(11, 0, 0, 100);
            it.tell(12, 0, 0, Fact::InterruptEnter(40, RecordText::Is("net"))).waking(13, 0, 0, 5);
        },
        &|it| {
            it.tell(10, 0, 0, Fact::SoftirqEnter(4)).complete(11, 0, 0, 100);
            it.tell(12, 0, 0, Fact::SoftirqLeave).tell(13, 0, 0, Fact::SoftirqEnter(4));
            it.waking(14, 0, 0, 5);
        },
        &|it| {
            it.tell(10, 0, 0, Fact::SoftirqEnter(4)).complete(11, 0, 0, 100);
            it.tell(11, 1, 0, Fact::SoftirqEnter(4)).waking(12, 1, 0, 5);
        },
        &|it| {
            it.tell(10, 0, 0, Fact::SoftirqEnter(1)).complete(11, 0, 0, 100).waking(12, 0, 0, 5);
        },
        &|it| _ = it.complete(11, 0, 0, 100).waking(12, 0, 0, 5),
        &|it| {
            it.tell(10, 0, 0, Fact::SoftirqEnter(4)).complete(11, 0, 0, 100);
            it.engine.gap(0, Some(0), 11);
            it.tell(12, 0, 0, Fact::SoftirqEnter(4)).waking(13, 0, 0, 5);
        },
        // Its begin is not in the trace.
        &|it| {
            it.tell(10, 0, 0, Fact::SoftirqEnter(4)).complete(11, 0, 0, 300).waking(12, 0, 0, 5);
        },
    ];
    for (number, tell) in all.iter().enumerate() {
        let mut machine = blocked_for();
        tell(&mut machine);
        assert_eq!(waits(&mut machine), Vec::<String>::new(), "{number}");
    }
}

#[test]
fn request_of_a_nested_interrupt_is_forgotten_with_it_and_that_of_the_outer_one_is_not() {
    let mut machine = blocked_for();
    machine.tell(10, 0, 0, Fact::SoftirqEnter(4)).complete(11, 0, 0, 100);
    machine.tell(12, 0, 0, Fact::InterruptEnter(40, RecordText::Is("net")));
    machine.tell(13, 0, 0, Fact::InterruptLeave).waking(14, 0, 0, 5);
    machine
        .tell(15, 0, 0, Fact::InterruptEnter(36, RecordText::Is("disk")))
        .complete(16, 0, 0, 200);
    machine.tell(17, 0, 0, Fact::InterruptLeave).waking(18, 0, 0, 6);
    assert_eq!(waits(&mut machine), ["5: for 100"]);
}
