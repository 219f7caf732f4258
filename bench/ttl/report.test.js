import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  formatWall,
  renderPercentiles,
  renderReport,
  renderTable,
  summarizePhases,
} from './report.js';

const phase = (name, title, us) => ({
  name,
  title,
  samples: Uint32Array.from([us, us * 2, us * 3, us * 4]),
  wallMs: us / 100,
});

const phases = [
  phase('uncached', 'no cache', 3000),
  phase('exact', 'exact', 1500),
  phase('ttl', 'ttl 300', 1500),
  phase('floor', 'client floor', 1000),
  phase('lean', 'lean floor', 750),
];

for (const [wallMs, wanted] of [
  [40, '0.0s'],
  [59_940, '59.9s'],
  [59_960, '1m0.0s'],
  [1_363_400, '22m43.4s'],
]) {
  test(`${wallMs} ms of wall time is written ${wanted}`, () => {
    assert.equal(formatWall(wallMs), wanted);
  });
}

test('the percentile table gives times and ratios', () => {
  const lines = renderPercentiles(summarizePhases(phases)).split('\n');
  const ratios = '2.00x | 2.00x | 1.00x | 1.50x | 1.50x | 2.00x | 2.00x |';
  assert.equal(lines[2], `| min | 3.000 | 1.500 | 1.500 | 1.000 | 0.750 | ${ratios}`);
  assert.equal(lines[3], `| p50 | 6.000 | 3.000 | 3.000 | 2.000 | 1.500 | ${ratios}`);
  assert.equal(lines.at(-1), `| avg | 7.500 | 3.750 | 3.750 | 2.500 | 1.875 | ${ratios}`);
});

test('the short table compares like with like, in words', () => {
  const lines = renderTable(summarizePhases(phases)).split('\n');
  assert.match(lines[2], /^\| \*Appwrite, no cache\* \| 73 \| 13.63 \| 13.19 \| 21.30 \| \*published/);
  assert.match(lines[3], /2.2 times as fast as no cache/);
  assert.match(lines[4], /^\| here, no cache \| \d+ \| 7.50 \| 6.00 \| 12.00 \| 200 % above/);
  assert.match(lines[5], /2.0 times as fast as no cache, 50 % above the SDK alone/);
  assert.match(lines[7], /^\| the SDK alone \|/);
  assert.match(lines[8], /^\| the same, lean \|/);
});

test('the report carries parameters, every table and the name of the samples', () => {
  const parameters = { iterations: 4, rounds: 1, warmup: 0, rows: 9, index: false, floor: 'x: y' };
  const report = renderReport({ parameters, phases }, 'raw.json');
  assert.match(report, /^---\niterations: 4\n[\s\S]*\nfloor: "x: y"\n[\s\S]*?\n---\n\n# /);
  assert.match(report, /uncached_avg_ms: 7.5\n/);
  assert.match(report, /without a secondary index/);
  assert.match(report, /\| p50 \| 13.187 \| 6.000 \| 3.000 \| 6.108 \| 3.000 \|/);
  assert.match(report, /\| wall \| 22m43.4s \| 0.0s \| 0.0s \| 10m44.5s \| 0.0s \|/);
  assert.match(report, /\[raw.json\]\(raw.json\)/);
  assert.doesNotMatch(report, /NaN|undefined|Infinity/);
});
