// SPDX-License-Identifier: Apache-2.0

// The parts of the page, one at a time: the address names the one that is shown
// (page.html#history), so that it can be linked to and a reload keeps it. `onShow` has a function
// for parts that want to know.

const setAddress = (hash) => {
  if (location.hash === hash) return;
  try {
    window.history.replaceState(null, '', hash);
  } catch {
    // A page inside of another one, as in a notebook, has no address of its own.
  }
};

export const setUpTabs = (onShow) => {
  const tabs = [...document.querySelectorAll('[role=tab]')];
  const part = (tab) => tab.getAttribute('aria-controls');

  const show = (name) => {
    for (const tab of tabs) {
      const chosen = part(tab) === name;
      tab.setAttribute('aria-selected', chosen);
      tab.tabIndex = chosen ? 0 : -1;
      document.getElementById(part(tab)).hidden = !chosen;
    }
    onShow[name]?.();
    setAddress(`#${name}`);
  };

  tabs.forEach((tab, i) => {
    tab.addEventListener('click', () => show(part(tab)));
    tab.addEventListener('keydown', ({key}) => {
      const by = {ArrowRight: 1, ArrowLeft: -1}[key];
      if (!by) return;
      const next = tabs[(i + by + tabs.length) % tabs.length];
      next.focus();
      show(part(next));
    });
  });
  const showNamed = () => {
    const name = location.hash.slice(1);
    if (tabs.some((tab) => part(tab) === name)) show(name);
  };
  addEventListener('hashchange', showNamed);
  return {show, showNamed};
};
