// Light, dark, or what the system says.

import { find } from './elements.js';

const NAMES = ['system', 'light', 'dark'];
const KEY = 'tidemark-theme';

/** A page from disk may not be allowed to keep anything; then each visit begins with `system`. */
function kept() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function keep(name) {
  try {
    localStorage.setItem(KEY, name);
  } catch {
    // Said above.
  }
}

export function prepareTheme(redraw) {
  let at = Math.max(NAMES.indexOf(kept()), 0);
  const show = () => {
    document.documentElement.dataset.theme = NAMES[at];
    find('theme').textContent = `Theme: ${NAMES[at]}`;
  };
  show();
  find('theme').addEventListener('click', () => {
    at = (at + 1) % NAMES.length;
    keep(NAMES[at]);
    show();
    redraw();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
}
