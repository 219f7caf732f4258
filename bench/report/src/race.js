// The race: every series answers requests with its own times, slowed down alike.

import { chip, find, make, named } from './elements.js';
import { isPaced, samplesOf } from './run.js';
import { latencyAt, shuffledShares } from './shares.js';
import * as words from './words.js';

/** Dots that one lane shows at once; of more connections the first ones are drawn. */
const DOTS_MAX = 8;
/** The slowest lane is to need about so many seconds to the goal. */
const LASTING_S = 20;
/** Requests to the goal, at least and at most. */
const GOAL = [200, 2000];
/** How slow the typical request of the fastest lane is to look, in seconds. */
const CROSSING_S = 0.35;
/** A frame that comes later than this, such as in a hidden tab, is taken for one of this length. */
const FRAME_MAX_S = 0.1;

let race = null;

/** One lane: connections that each have a request under way, and the shares still to come. */
class Lane {
  constructor(series, shares) {
    this.series = series;
    this.latencies = shares.map(latencyAt(series, samplesOf(series)));
    this.next = 0;
    this.done = 0;
    this.connections = Array.from({ length: Math.max(series.connections ?? 1, 1) }, () =>
      this.begin(),
    );
    this.rank = null;
  }

  begin() {
    const us = this.latencies[this.next];
    this.next = (this.next + 1) % this.latencies.length;
    return { us, left: us };
  }

  /** Lets `us` microseconds of measured time pass. */
  pass(us, goal) {
    for (const one of this.connections) {
      let rest = us;
      while (rest >= one.left && this.done < goal) {
        rest -= one.left;
        this.done += 1;
        Object.assign(one, this.begin());
      }
      one.left -= rest;
    }
  }
}

/** A series with samples, or one of which percentiles were published. */
const canRun = (series) =>
  !isPaced(series) &&
  (samplesOf(series)?.length > 0 || (series.source === 'quoted' && series.points_us.p50 > 0));

const usPerRequest = ({ points_us: points, connections }) =>
  (points.mean ?? points.p50) / Math.max(connections ?? 1, 1);

function newRace(group) {
  const runners = group.series.filter(canRun);
  if (runners.length === 0) return null;
  const fastest = Math.min(...runners.map((series) => series.points_us.p50));
  const slowest = Math.max(...runners.map(usPerRequest));
  const crossing = (CROSSING_S * 1e6) / fastest;
  const lasting = (LASTING_S * 1e6) / (GOAL[0] * slowest);
  const pace = niceNumber(Math.min(crossing, lasting));
  const wanted = Math.round((LASTING_S * 1e6) / pace / slowest);
  const goal = Math.min(Math.max(wanted, GOAL[0]), GOAL[1]);
  const shares = shuffledShares(goal);
  return {
    lanes: runners.map((series) => new Lane(series, shares)),
    pace,
    slowed: pace,
    goal,
    running: false,
    seenAt: null,
    places: 0,
  };
}

/** 1, 2 or 5 times a power of ten, from below. */
function niceNumber(number) {
  const unit = 10 ** Math.floor(Math.log10(number));
  return [5, 2, 1].find((step) => step * unit <= number) * unit;
}

/** Sets the race up for a group, at its start. */
export function renderRace({ group }) {
  stop();
  race = newRace(group);
  find('race').hidden = race === null;
  if (race === null) return;
  const { lanes, goal } = race;
  find('race-hint').textContent =
    `First to ${words.count(goal)} requests. Each dot is one request, slowed down for all lanes ` +
    'alike. All lanes draw the same shares from one shuffle: where one answers as quickly as its ' +
    'fastest 10 %, each does, so that a slow minute of the machine favours none. Quoted lanes ' +
    'take the published percentile at or above the share.';
  const paces = [0.1, 0.5, 1, 2, 10].map((factor) => race.pace * factor);
  find('race-pace').replaceChildren(
    ...paces.map((pace) =>
      make('option', { value: pace, selected: pace === race.pace }, `${words.count(pace)} times`),
    ),
  );
  find('race-lanes').replaceChildren(...lanes.map(laneOf));
  find('race-said').textContent = '';
  draw();
}

function laneOf(lane) {
  const shown = Math.min(lane.connections.length, DOTS_MAX);
  lane.dots = Array.from({ length: shown }, () => make('span', { class: 'runner' }));
  lane.fill = make('div', { class: 'fill' });
  lane.text = make('span', { class: 'lane-count' });
  const many = lane.connections.length;
  const note = many > 1 ? `${many} connections${many > shown ? `, ${shown} drawn` : ''}` : '';
  return make(
    'div',
    { class: `lane ink-${lane.series.ink}` },
    make(
      'div',
      { class: 'lane-head' },
      named(lane.series),
      chip(lane.series.source),
      make('small', {}, note),
      lane.text,
    ),
    make('div', { class: 'course', 'aria-hidden': 'true', style: { '--dots': shown } }, lane.dots),
    make('div', { class: 'track', 'aria-hidden': 'true' }, lane.fill),
  );
}

function draw() {
  for (const lane of race.lanes) {
    lane.dots.forEach((dot, place) => {
      const { us, left } = lane.connections[place];
      dot.style.setProperty('--at', String(lane.rank === null ? 1 - left / us : 1));
      dot.style.setProperty('--row', String(place));
    });
    lane.fill.style.setProperty('width', `${(100 * lane.done) / race.goal}%`);
    const rank = lane.rank === null ? '' : ` · place ${lane.rank}`;
    lane.text.textContent = `${words.count(lane.done)} of ${words.count(race.goal)}${rank}`;
  }
}

/** Lets `seconds` of the reader's time pass. */
export function advance(seconds) {
  const us = (seconds * 1e6) / race.slowed;
  const before = race.places;
  for (const lane of race.lanes.filter((one) => one.rank === null)) lane.pass(us, race.goal);
  for (const lane of race.lanes.filter((one) => one.rank === null && one.done >= race.goal)) {
    lane.rank = before + 1;
    race.places += 1;
  }
  if (race.places === race.lanes.length) finish();
  draw();
}

function finish() {
  stop();
  const order = [...race.lanes].sort((left, right) => left.rank - right.rank);
  find('race-said').textContent =
    `Over: ${order.map((lane) => `${lane.rank}. ${lane.series.title}`).join(', ')}.`;
}

function stop() {
  if (race) race.running = false;
  find('race-play').textContent = 'Start';
}

function frame(now) {
  if (!race?.running) return;
  if (race.seenAt !== null) advance(Math.min((now - race.seenAt) / 1000, FRAME_MAX_S));
  race.seenAt = now;
  if (race.running) requestAnimationFrame(frame);
}

/** Connects the buttons. The race never starts by itself. */
export function prepareRace(current) {
  find('race-play').addEventListener('click', () => {
    if (race.running) {
      stop();
      return;
    }
    if (race.places === race.lanes.length) renderRace(current());
    Object.assign(race, { running: true, seenAt: null });
    find('race-play').textContent = 'Pause';
    requestAnimationFrame(frame);
  });
  find('race-reset').addEventListener('click', () => {
    const chosen = find('race-pace').value;
    renderRace(current());
    find('race-pace').value = chosen;
    race.slowed = Number(chosen);
  });
  find('race-pace').addEventListener('change', (event) => {
    race.slowed = Number(event.target.value);
  });
}
