// Tables wider than their place: they say so, and the keyboard reaches what is out of sight.

/** Marks each wide table that scrolls, and takes the mark from those that fit. */
export function markScrolling() {
  for (const wrap of document.querySelectorAll('.wrap')) {
    const scrolls = wrap.scrollWidth > wrap.clientWidth;
    wrap.classList.toggle('scrolls', scrolls);
    if (!scrolls) {
      for (const name of ['tabindex', 'role', 'aria-label']) wrap.removeAttribute(name);
      continue;
    }
    const title = wrap.querySelector('caption')?.textContent ?? 'Table';
    wrap.setAttribute('tabindex', '0');
    wrap.setAttribute('role', 'region');
    wrap.setAttribute('aria-label', `${title}, scrolls sideways`);
  }
}
