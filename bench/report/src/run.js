// A run as the page uses it: series with their colours and decoded samples.

import { decode } from './codes.js';

export const FORMAT = 'tidemark.run/1';
/** The points of a latency distribution, in the order shown. */
export const POINTS = ['min', 'p50', 'p75', 'p90', 'p95', 'p99', 'p99.9', 'max', 'mean'];

/**
 * The run inside the page.
 * @throws Error when it is of a format that this page does not know
 */
export function read(text) {
  const run = JSON.parse(text);
  if (run.format !== FORMAT) throw new Error(`this page reads ${FORMAT}, not ${run.format}`);
  for (const group of run.groups) {
    group.series.forEach((series, place) => {
      series.ink = inkOf(series, place);
      series.place = place;
    });
  }
  return run;
}

/** Names of colours in the style sheet. Roles keep theirs, so that two pages look alike. */
const INKS = ['blue', 'green', 'violet', 'amber', 'teal'];

function inkOf({ role, source }, place) {
  if (source === 'quoted') return place % 2 === 0 ? 'rose' : 'sand';
  if (role === 'floor') return 'grey';
  if (role === 'reference') return 'red';
  return INKS[place % INKS.length];
}

const decoded = new WeakMap();

/** The samples of a series in microseconds, in the order of their requests; decoded once. */
export function samplesOf(series) {
  if (!series.samples?.codes) return null;
  if (!decoded.has(series)) decoded.set(series, decode(series.samples.codes));
  return decoded.get(series);
}

/** The series that others are compared with unless the reader chooses another: published first. */
export const referenceOf = (group) =>
  group.series.find(({ source }) => source === 'quoted') ??
  group.series.find((series) => series.role === 'reference') ??
  group.series.find((series) => series.role !== 'subject') ??
  group.series[0];

/**
 * Whether a series was asked so many requests a second: it rested in between, so what it took says
 * nothing of how many it could have answered.
 */
export const isPaced = ({ key }) => key.startsWith('paced');

/** The cores that the server of a group had; those of the machine where the group does not say. */
export const coresOf = (group, run) => group.cores ?? run.machine.cores;

/** The series that the run is about. */
export const subjectOf = (group) =>
  group.series.find((series) => series.role === 'subject') ?? group.series[0];
