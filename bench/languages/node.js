// SPDX-License-Identifier: MIT
// What an event of a Node.js program costs: the lowest of some rounds [ns], without the loop. node.js LABEL [--once]
'use strict';

const strata = require('../../bindings/node');

const [rounds, events] = process.argv.includes('--once') ? [2, 100] : [20, 50000];
const pair = strata.event('bench:pair', { one: 'int', two: 'int' });
const sold = strata.event('bench:sold', { number: 'int', text: 'text' });
const spans = strata.span('bench:span', { number: 'int' });

function lowest(each) {
  let best = Infinity;
  for (let round = 0; round < rounds; round++) {
    const begin = process.hrtime.bigint();
    for (let number = 0; number < events; number++) {
      each(number);
    }
    best = Math.min(best, Number(process.hrtime.bigint() - begin));
  }
  return best / events;
}

function show(what, each) {
  console.log(`RESULT ${process.argv[2]}/${what} ${lowest(each).toFixed(1)}`);
}

show('two integers', (number) => pair.record(number, number));
show('an integer and a text of 31 characters', (number) => sold.record(number, 'thirty-one characters and more.'));
show('a span with an integer, begin and end', (number) => spans.begin(number).end());
