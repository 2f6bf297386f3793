// SPDX-License-Identifier: Apache-2.0

// Light or dark as the system has it, until the button says otherwise.

export const setUpTheme = (button) => {
  const system = matchMedia('(prefers-color-scheme: dark)');
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ?? (system.matches ? 'dark' : 'light')) === 'dark';
  const update = () => {
    button.textContent = isDark() ? '\u2600' : '\u263e';
    button.setAttribute('aria-pressed', isDark());
  };
  button.addEventListener('click', () => {
    root.dataset.theme = isDark() ? 'light' : 'dark';
    update();
  });
  system.addEventListener('change', update);
  update();
};
