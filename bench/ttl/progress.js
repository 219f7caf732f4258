const BAR_CELLS = 30;

/** A progress bar on a terminal, and silence elsewhere. `report(done)` draws at most 10 times/s. */
export function progressBar(label, total, stream = process.stderr) {
  if (!stream.isTTY) return { report() {}, finish() {} };
  let drawnAt = -Infinity;
  const draw = (done) => {
    const cells = Math.floor((done / total) * BAR_CELLS);
    const bar = '#'.repeat(cells).padEnd(BAR_CELLS, '.');
    stream.write(`\r${label} [${bar}] ${done}/${total}`);
  };
  return {
    report(done) {
      const now = performance.now();
      if (now - drawnAt < 100) return;
      drawnAt = now;
      draw(done);
    },
    finish() {
      draw(total);
      stream.write('\n');
    },
  };
}
