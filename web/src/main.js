// SPDX-License-Identifier: Apache-2.0
import {readData} from './data.js';
import {byId} from './dom.js';
import {GraphView} from './graph.js';
import {showHistory} from './history.js';
import {showOverview} from './overview.js';
import {setUpTabs} from './tabs.js';
import {setUpTheme} from './theme.js';
import {amount, plural} from './words.js';

const data = readData(byId('data').textContent);
byId('title').textContent = data.title;
byId('subtitle').textContent =
    `${plural(data.after.nodes, 'node')}, ${plural(data.steps.length, 'step')}` +
    (data.file?.bytes ? `, ${amount(data.file.bytes)}` : '');

setUpTheme(byId('theme'));
const graph = new GraphView(byId('graph'), data);
const tabs = setUpTabs({graph: () => graph.shown()});
const history = showHistory(byId('history'), data, (step) => {
  tabs.show('graph');
  graph.showNodes(step.nodes);
});
graph.onStep = (step) => {
  tabs.show('history');
  history.open(step);
};
showOverview(byId('overview'), data, {history: () => tabs.show('history')});
tabs.showNamed();
