// SPDX-License-Identifier: Apache-2.0
import {error, times, toneOfSpeed} from './words.js';

// What was measured of each step by itself: the columns that a table of steps gets, and for each
// the cells by the step's id. There is no column for what was not measured.

const errorFromVerify = ({worst, added}) => {
  const value = worst.exact ? worst.fraction_exceeding : worst.l2;
  const largest = worst.exact ? '' : `, largest error ${error(worst.native_error.relative)}`;
  return {
    text: value === 0 ? 'equal' : error(value),
    title: `${worst.path}: ${worst.verdict}${largest}, added by this step ${error(added)}`,
    tone: worst.verdict === 'fail' ? 'bad' : null,
  };
};

const errorFromSensitivity = (step) => ({
  text: error(step.error),
  title: step.sqnr === null ? null : `SQNR ${step.sqnr.toFixed(1)} dB`,
  tone: null,
});

const speedOf = ({ratio, low, high, speed}) => ({
  text: times(ratio),
  title: `${speed}: ${times(low)} to ${times(high)} with 99% confidence`,
  tone: toneOfSpeed(speed),
});

export const measuredColumns = ({verification, sensitivity, benchmark}) => {
  const errors = new Map(), speeds = new Map();
  for (const step of sensitivity?.steps ?? [])
    if (step.in_model) errors.set(step.id, errorFromSensitivity(step));
  for (const step of verification.steps ?? []) errors.set(step.id, errorFromVerify(step));
  for (const step of benchmark.steps ?? []) speeds.set(step.id, speedOf(step.contest));
  return [
    {
      name: 'Error',
      title: 'Relative L2 error of the original with only this step and the steps it depends on',
      cells: errors,
    },
    {
      name: 'Speed',
      title: 'How many times as fast the model is with this step as without it',
      cells: speeds,
    },
  ].filter(({cells}) => cells.size > 0);
};
