// The parts of the page, one at a time. `onShow` has a function for parts that want to know.

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
  return {show};
};
