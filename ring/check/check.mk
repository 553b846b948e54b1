# The checks of the ring library, run from the root through the Makefile. Each part prints its table.
#
#   make check              all of them, about five minutes
#   make check CHECK=model  one: engine, model, step, stress, bpf, spin, guest
#   make check CHECK=map    which invariant is checked by what
CHECK ?= engine model step stress bpf spin guest
ENGINE := $(addprefix ring/check/engine/,coroutine.c graph.c hooks.c memory.c plain.c report.c saved.c search.c)
ENGINE_FLAGS := -std=gnu11 -O2 -g $(WARNINGS)

.PHONY: check check-build $(addprefix check-,engine model step stress bpf spin guest map)
check: $(addprefix check-,$(CHECK))
check-build: $(BUILD)/check/litmus $(BUILD)/check/fuzz $(BUILD)/check/fuzz-no-wake

$(BUILD)/check/litmus: $(ENGINE) $(wildcard ring/check/engine/litmus*.[ch]) ring/check/engine/engine.h
	@mkdir -p $(@D)
	@$(CC) $(ENGINE_FLAGS) $(filter %.c,$^) -o $@
$(BUILD)/check/fuzz: $(ENGINE) ring/check/engine/fuzz.c ring/check/engine/engine.h
	@mkdir -p $(@D)
	@$(CC) $(ENGINE_FLAGS) $(filter %.c,$^) -o $@
$(BUILD)/check/fuzz-no-wake: $(ENGINE) ring/check/engine/fuzz.c ring/check/engine/engine.h
	@mkdir -p $(@D)
	@$(CC) $(ENGINE_FLAGS) -DMC_BUG_NO_WAKE $(filter %.c,$^) -o $@

# The checker itself first: its memory model, its reduction, and that a broken reduction is noticed.
check-engine: check-build
	@echo '== the checker: litmus tests, reduced against unreduced search on random programs'
	@timeout 400 $(BUILD)/check/litmus
	@timeout 400 $(BUILD)/check/fuzz 1000 1
	@! timeout 400 $(BUILD)/check/fuzz-no-wake 300 1 >$(BUILD)/check/no-wake 2>&1 || \
		{ echo 'fuzz: a reduction without wake-ups was not noticed'; exit 1; }
	@echo 'ok   a reduction without wake-ups is noticed'
check-model:
	@echo '== the model checker over the headers'
	@ring/check/model/run $(BUILD)
check-step:
	@echo '== every instruction of the production build'
	@ring/check/step/run || [ $$? = 77 ]
check-stress:
	@echo '== sanitizers under load'
	@ring/check/stress/run || [ $$? = 77 ]
check-bpf:
	@echo '== in the kernel: BPF programs, interrupts and laps'
	@ring/check/bpf/run $(BUILD) || [ $$? = 77 ]
check-spin:
	@echo '== SPIN: the algorithm, with liveness'
	@ring/check/spin/run || [ $$? = 77 ]
check-guest:
	@echo '== AArch64, with a kernel'
	@ring/check/guest/run || [ $$? = 77 ]
check-map:
	@tools/gate/invariants
