// What the pages of the site lack for the keyboard and for readers who hear them.

/** The navigation is opened by a label, which cannot be focused: puts a button in its place. */
function makeToggleAButton() {
  const label = document.getElementById('mdbook-sidebar-toggle');
  const checkbox = document.getElementById('mdbook-sidebar-toggle-anchor');
  if (label === null || checkbox === null) return;
  const button = document.createElement('button');
  for (const { name, value } of label.attributes) {
    if (name !== 'for') button.setAttribute(name, value);
  }
  button.type = 'button';
  button.append(...label.childNodes);
  const say = () => button.setAttribute('aria-expanded', String(checkbox.checked));
  button.addEventListener('click', () => checkbox.click());
  checkbox.addEventListener('change', say);
  say();
  label.replaceWith(button);
}

/** Arrow keys scroll wide code and tables, once these can be focused. */
function makeWideOnesFocusable() {
  for (const box of document.querySelectorAll('main pre > code, main .table-wrapper')) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute('tabindex');
  }
}

/** The corner of a table names no column. */
function makeCornersCells() {
  for (const head of document.querySelectorAll('main thead th:empty')) {
    head.replaceWith(document.createElement('td'));
  }
}

document.getElementById('mdbook-menu-bar')?.setAttribute('role', 'banner');
makeToggleAButton();
makeCornersCells();
makeWideOnesFocusable();
window.addEventListener('resize', makeWideOnesFocusable);
