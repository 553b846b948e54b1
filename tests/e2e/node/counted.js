// SPDX-License-Identifier: MIT
// Records events of all kinds, and says how many: "N events".
'use strict';

const { execFileSync } = require('child_process');
const diagnostics = require('diagnostics_channel');
const { Worker, isMainThread, workerData } = require('worker_threads');

const strata = require('../../../bindings/node');

const step = strata.event('node:step', { number: 'int', text: 'text' }, 'debug');
const work = strata.span('node:work', { worker: 'int', text: 'text', yes: 'bool', half: 'float' });
let events = 0;

function values() {
  strata.event('node:none').record();
  const numbers = strata.event('node:numbers', { least: 'int', most: 'int', below: 'int', half: 'float', yes: 'bool' }, 'warning');
  numbers.record(-(2n ** 63n), 2n ** 63n - 1n, -5, 0.5, true);
  // Values of other types are converted, or 0.
  numbers.record('7', {}, undefined, '2.5', 1);
  numbers.record(2 ** 53 - 1, -(2 ** 53 - 1), NaN, Symbol('x'), Symbol('x'));
  const text = strata.event('node:text', { text: 'text', more: 'text', number: 'int' });
  text.record('é"', '', 1);
  text.record('x'.repeat(100000), '€'.repeat(50000), 2);
  text.record({ a: 1 }, undefined, 3);
  text.record({ [require('util').inspect.custom]() { throw new Error('no text'); } }, '\ud800', 4);
  // Objects have code of their own, which fails, or records an event while a record is written.
  const throws = { valueOf() { throw new Error('no number'); } };
  numbers.record(throws, Object.create(null), throws, throws, throws);
  text.record('before', { toString() { return 'unused'; }, [require('util').inspect.custom]() { step.record(0, '0/0'); return 'inside'; } }, {
    valueOf() {
      step.record(0, '0/0');
      return 5;
    },
  });
  events += 4;
  strata.event('without_provider', { number: 'int' }).record(1);
  strata.event('node:text', { number: 'int' }).record(7);
  events += 10;
  // What libstrata refuses is no error of the program; what the program writes wrongly is.
  strata.event('bad\n:name').record();
  strata.event('node:\0').record();
  for (const wrong of [() => strata.event('a:b', { a: 'double' }), () => strata.event('a:b', { a: 'toString' }), () => strata.event('a:b', {}, 'fatal')]) {
    try {
      wrong();
    } catch (error) {
      continue;
    }
    throw new Error('no error');
  }
}

function run(worker) {
  for (let number = 0; number < 500; number++) {
    const span = work.begin(worker, 'Ada', true, 0.5);
    step.record(number, `${worker}/${number}`);
    span.end();
    span.end();
    events += 3;
  }
}

async function workers() {
  const exits = [1, 2].map((worker) => new Promise((done) => {
    new Worker(__filename, { workerData: { worker } }).on('exit', done);
  }));
  run(0);
  await Promise.all(exits);
  events += 2 * 1500;
}

function executed() {
  step.record(0, '0/0');
  events += 1;
  process.stdout.write(execFileSync(process.execPath, [__filename, 'child']));
}

async function channels() {
  const end = strata.traceChannel('shop:sold', { number: ['int', (message) => message.number], who: ['text', (message) => message.who] });
  const plain = strata.traceChannel('shop.plain');
  for (let number = 0; number < 20; number++) {
    diagnostics.channel('shop:sold').publish({ number, who: 'Ada' });
  }
  diagnostics.channel('shop.plain').publish({ answer: 42 });
  end();
  plain();
  diagnostics.channel('shop:sold').publish({ number: 99, who: 'nobody' });
  events += 21;
  if (diagnostics.tracingChannel) {
    strata.traceSpans('shop.pay');
    const pay = diagnostics.tracingChannel('shop.pay');
    pay.traceSync(() => 1, {});
    await Promise.all([1, 2, 3].map(() => pay.tracePromise(async () => { await null; return 1; }, {})));
    try {
      pay.traceSync(() => { throw new Error('fails'); }, {});
    } catch (error) {
      // It is recorded as a span, too.
    }
    events += 2 * 5;
  }
}

async function main() {
  switch (process.argv[2]) {
    case 'values':
      values();
      break;
    case 'workers':
      await workers();
      break;
    case 'executed':
      executed();
      break;
    case 'child':
      step.record(1, '0/1');
      events += 1;
      break;
    case 'channels':
      await channels();
      break;
    case 'killed':
      run(0);
      require('fs').writeSync(1, `${events} events\n`);
      process.kill(process.pid, 'SIGKILL');
      return;
    default:
      throw new Error(process.argv[2]);
  }
  console.log(`${events} events`);
}

if (isMainThread) {
  main();
} else {
  run(workerData.worker);
}
