// SPDX-License-Identifier: Apache-2.0

// Opens pages in Chromium as a user does, from the disk.
//
// usage: node browser.mjs WEB PAGES PROGRAM MODELS
//   WEB      the folder with node_modules
//   PAGES    the folder into which refx_tests wrote pages
//   PROGRAM  refx
//   MODELS   the folder with small.pt2 and branch.pt2

import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import {pathToFileURL} from 'node:url';

const [web, pages, program, models] = process.argv.slice(2).map((path) => resolve(path));
const {chromium} = createRequire(join(web, 'package.json'))('playwright-core');
const scratch = mkdtempSync(join(tmpdir(), 'refx-browser-'));
const BROWSER = '/usr/bin/chromium';
const FLAGS = [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'
];
if (!existsSync(BROWSER)) {
  console.log(`SKIP: no ${BROWSER}`);
  process.exit(0);
}

const browser = await chromium.launchPersistentContext(join(scratch, 'profile'), {
  executablePath: BROWSER,
  headless: true,
  args: FLAGS,
  env: {...process.env, HOME: scratch},
  colorScheme: 'light',
  viewport: {width: 1280, height: 800},
});

browser.setDefaultTimeout(120_000);

// A page that may complain about nothing and ask for nothing but its own file and its own worker.
const open = async (file, part = '') => {
  const page = await browser.newPage();
  const url = pathToFileURL(file).href + part;
  const trouble = [];
  page.on('console', (message) => trouble.push(`console ${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => trouble.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => trouble.push(`dialog: ${dialog.message()}`));
  page.on('request', (request) => {
    if (request.url() !== pathToFileURL(file).href && !request.url().startsWith('blob:'))
      trouble.push(`request: ${request.url()}`);
  });
  await page.goto(url);
  return {
    page,
    done: async () => {
      assert.deepEqual(trouble, [], file);
      await page.close();
    }
  };
};

const showGraph = async (page) => {
  await page.click('#tab-graph');
  await page.waitForSelector('.item');
};

// Where everything that is drawn stands, by item.
const places = (page) => page.$$eval(
    '.item, .frame', (all) => all.map((e) => `${e.dataset.item} ${e.getAttribute('transform')}`));

const seen = (page, selector) => page.$$eval(
    selector, (all) => all.filter((e) => getComputedStyle(e).visibility === 'visible').length);

const find = async (page, name) => {
  await page.fill('#search', name);
  await page.locator('.result', {hasText: name}).first().click();
  await page.waitForSelector('.item.chosen');
};

// The milliseconds of processor time that the page's own thread needs for something: while it works
// it answers to nothing else. Not wall time, which on a busy machine says little about the page.
const workOf = async (page, act) => {
  const client = await page.context().newCDPSession(page);
  await client.send('Performance.enable', {timeDomain: 'threadTicks'});
  const busy = async () => (await client.send('Performance.getMetrics'))
                               .metrics.find((m) => m.name === 'TaskDuration')
                               .value;
  const before = await busy();
  await act();
  return (await busy() - before) * 1000;
};

const tests = {
  async 'a real model'() {
    const fast = join(scratch, 'fast.pt2'), html = join(scratch, 'fast.html');
    execFileSync(program, ['apply', join(models, 'small.pt2'), 'all', '-q', '-o', fast]);
    execFileSync(program, ['report', fast, '-q', '-o', html]);
    const {page, done} = await open(html);
    assert.equal(await page.title(), 'fast.pt2');
    assert.match(await page.textContent('[aria-label=Verification] .verdict'), /^Computes what/);
    assert.ok(await page.locator('[aria-label=Verification] circle.current').count() > 0);
    assert.ok(await page.locator('[aria-label=Speed] circle.round').count() > 0);
    await showGraph(page);
    await page.locator('.item.group', {hasText: 'attention'}).click();
    await page.waitForSelector('.frame');
    await find(page, 'softmax');
    await done();
  },

  async 'a model that cannot be run'() {
    const fast = join(scratch, 'unknown.pt2'), html = join(scratch, 'unknown.html');
    execFileSync(
        program, ['apply', join(models, 'unknown.pt2'), 'merge-linears', '-q', '-o', fast]);
    execFileSync(program, ['report', fast, '-q', '-o', html]);
    const {page, done} = await open(html);
    assert.match(await page.textContent('[aria-label=Verification] .note'), /gate/);
    assert.match(await page.textContent('[aria-label=Speed] .note'), /gate/);
    await showGraph(page);
    await done();
  },

  async 'results are drawn'() {
    const {page, done} = await open(join(pages, 'results.html'));
    assert.equal(
        await page.textContent('[aria-label=Verification] .verdict'), 'Differs from its original');
    assert.equal(await page.locator('[aria-label=Verification] .failed').count(), 1);
    assert.equal(await page.locator('[aria-label=Speed] circle.round').count(), 6);
    assert.match(await page.textContent('[aria-label=Verification]'), /a <note>/);
    assert.match(await page.textContent('[aria-label=Verification]'), /step 2 is <not> reached/);
    assert.match(
        await page.textContent('[aria-label=Verification]'), /encoder\.layer\.2merge-linearsnever/);
    await done();
  },

  async 'lossy steps are drawn in the order of the model'() {
    const {page, done} = await open(join(pages, 'lossy.html'));
    const {steps} = await page.evaluate(
        () => JSON.parse(document.getElementById('data').textContent).sensitivity);
    assert.equal(steps.length, 72);
    const rows = await page.$$eval(
        '[aria-label=Sensitivity] .loss[data-step]',
        (all) => all.map((row) => ({
                           id: Number(row.dataset.step),
                           kind: row.getAttribute('class'),
                           title: row.firstChild.textContent,
                           width: row.querySelector('.bar').getBoundingClientRect().width,
                           y: row.getBoundingClientRect().y,
                         })));
    assert.deepEqual(rows.map((row) => row.id), steps.map((step) => step.id));
    assert.deepEqual(rows.map((row) => row.y), rows.map((row) => row.y).sort((a, b) => a - b));
    // Longer bars for larger errors, as logarithms: equal ratios are equal lengths.
    const byError = [...steps.keys()].sort((a, b) => steps[a].error - steps[b].error);
    const [low, high] = [byError[0], byError.at(-1)];
    const log = (i) => Math.log10(steps[i].error);
    const unit = (rows[high].width - rows[low].width) / (log(high) - log(low));
    assert.ok(unit > 20);
    for (const i of byError)
      assert.ok(Math.abs(rows[i].width - rows[low].width - unit * (log(i) - log(low))) < 1);
    assert.deepEqual(
        rows.filter((row) => / worst/.test(row.kind)).map((row) => row.id), [steps[high].id]);
    assert.deepEqual(
        rows.map((row) => /not-kept/.test(row.kind)), steps.map((step) => !step.in_model));
    assert.ok(rows.some((row) => /not-kept/.test(row.kind)));
    assert.match(rows[0].title, /<b>backbone<\/b>/);
    assert.equal(await page.locator('[aria-label=Sensitivity] b').count(), 0);
    // Names end where the bars begin, and begin on the page.
    const names = await page.$$eval(
        '[aria-label=Sensitivity] .loss .row',
        (all) => all.map((e) => e.getBoundingClientRect().x));
    const panel = await page.locator('[aria-label=Sensitivity]').boundingBox();
    assert.ok(Math.min(...names) > panel.x);
    const sizes = await page.$$eval(
        '[aria-label=Size] .size', (all) => all.map((e) => Number(e.dataset.bytes)));
    const data = await page.evaluate(() => JSON.parse(document.getElementById('data').textContent));
    assert.deepEqual(sizes.slice(0, 2), [data.before.bytes, data.after.bytes]);
    assert.ok(sizes[2] > 0);
    await done();
  },

  async 'what tune tried is drawn, error against gain'() {
    const {page, done} = await open(join(pages, 'lossy.html'));
    const panel = '[aria-label="Error and gain"]';
    const {tried} = await page.evaluate(
        () => JSON.parse(document.getElementById('data').textContent).tuning.within);
    const dots =
        await page.$$eval(`${panel} .attempt`, (all) => all.map((e) => ({
                                                                  x: Number(e.getAttribute('cx')),
                                                                  y: Number(e.getAttribute('cy')),
                                                                  kind: e.getAttribute('class'),
                                                                  title: e.textContent
                                                                })));
    const order = (values) => [...values.keys()].sort((a, b) => values[a] - values[b]);
    assert.equal(dots.length, 4);
    assert.deepEqual(order(dots.map((d) => d.x)), order(tried.map((a) => a.error)));
    assert.deepEqual(order(dots.map((d) => -d.y)), order(tried.map((a) => a.gain)));
    assert.deepEqual(dots.map((d) => /good/.test(d.kind)), tried.map((a) => a.good));
    // All but the one that another beats in both.
    assert.deepEqual(dots.map((d) => /best/.test(d.kind)), [true, false, true, true]);
    const corners = (await page.getAttribute(`${panel} polyline`, 'points')).split(' ');
    assert.deepEqual(
        corners.map((c) => c.split(',').map(Number)), [3, 2, 0].map((i) => [dots[i].x, dots[i].y]));
    const budget = Number(await page.getAttribute(`${panel} .budget`, 'x1'));
    assert.ok(dots[2].x < budget && budget < dots[1].x);
    assert.match(dots[0].title, /72 sites: error 3\.1e-2, saves 4\.20 ms; rejected/);
    assert.match(await page.textContent(`${panel} .note`), /9\.3e-3 .* budget is 1\.0e-2/);
    await done();
  },

  async 'a lossy model of the program'() {
    const small = join(scratch, 'small.pt2'), html = join(scratch, 'small.html');
    execFileSync(
        program, ['apply', join(models, 'small.pt2'), 'store-linear-int8', '-q', '-o', small]);
    execFileSync(program, ['report', small, '--no-bench', '-q', '-o', html]);
    const {page, done} = await open(html);
    assert.match(
        await page.textContent('[aria-label=Verification] .verdict'),
        /^Not judged: no budget given$/);
    assert.ok(await page.locator('[aria-label=Sensitivity] .loss.kept .bar').count() > 0);
    assert.match(await page.textContent('[aria-label=Size] .note'), /of them for undo/);
    await done();
  },

  async 'a verdict that cannot be given'() {
    const {page, done} = await open(join(pages, 'unsure.html'));
    assert.match(await page.textContent('[aria-label=Verification] .verdict'), /^Cannot tell/);
    assert.match(await page.textContent('[aria-label=Verification]'), /output: too close/);
    assert.match(await page.textContent('.cards'), /Resultscannot tell/);
    await done();
  },

  async 'the history is filtered and shows before and after'() {
    const {page, done} = await open(join(pages, 'results.html'));
    await page.click('#tab-history');
    assert.equal(await page.locator('tr.step').count(), 6);
    await page.fill('#filter', 'merge layer.1');
    assert.equal(await page.locator('tr.step').count(), 1);
    assert.equal(await page.textContent('#history [role=status]'), '1 of 6 steps');
    await page.click('tr.step');
    assert.ok(await page.locator('.under .line.removed').count() >= 3);
    assert.ok(await page.locator('.under .line.added').count() >= 3);
    assert.equal(await page.getAttribute('tr.step button', 'aria-expanded'), 'true');
    await page.locator('.under button', {hasText: 'Show in graph'}).click();
    await page.waitForSelector('.item.marked');
    assert.ok(await page.locator('.item.marked.changed').count() === 3);
    // And back from a node to its step.
    await page.locator('.details button', {hasText: 'merge-linears'}).click();
    assert.ok(await page.locator('tr.step.open').count() >= 1);
    await done();
  },

  async 'the history has what was measured of each step'() {
    const history = async (file) => {
      const {page, done} = await open(join(pages, file), '#history');
      const texts = (selector) => page.$$eval(selector, (all) => all.map((e) => e.textContent));
      const heads = await texts('.steps th');
      const rows = await page.$$eval(
          'tr.step',
          (all) => all.map((row) => ({
                             id: Number(row.dataset.step),
                             cells: [...row.cells].map((cell) => cell.textContent),
                             kinds: [...row.cells].map((cell) => [...cell.classList].at(-1)),
                           })));
      await page.click('tr.step');
      const under = await page.locator('.under td').first().boundingBox();
      const table = await page.locator('.steps').boundingBox();
      assert.ok(Math.abs(under.width - table.width) < 2);  // it spans all columns
      await done();
      return {heads, rows};
    };
    const always = ['Step', 'Transformation', 'Site', 'Nodes', 'Kept for undo'];
    const withColumns = (...names) => [...always.slice(0, 3), ...names, ...always.slice(3)];

    const both = await history('results.html');
    assert.deepEqual(both.heads, withColumns('Error', 'Speed'));
    assert.deepEqual(
        both.rows.map(({id, cells, kinds}) => [id, ...cells.slice(3, 5), kinds[3], kinds[4]]), [
          [1, '2.0e-7', '1.14\u00d7', 'number', 'good'],
          [2, '2.0e-7', '1.14\u00d7', 'bad', 'good'],
          ...[3, 4, 5, 6].map((id) => [id, '\u2013', '\u2013', 'number', 'number']),
        ]);

    const lossy = await history('lossy.html');
    assert.deepEqual(lossy.heads, withColumns('Error'));
    assert.ok(lossy.rows.every(({cells}) => /^\d\.\de-\d$/.test(cells[3])));

    assert.deepEqual((await history('unsure.html')).heads, always);
  },

  async 'the address names the part that is shown'() {
    const shown = (page) => page.$$eval(
        '[role=tabpanel]', (all) => all.filter((e) => !e.hidden).map((e) => e.id).join());
    const file = join(pages, 'results.html');
    for (const [part, expected] of [
             ['', 'overview'], ['#history', 'history'], ['#graph', 'graph'],
             ['#none', 'overview']]) {
      const {page, done} = await open(file, part);
      assert.equal(await shown(page), expected);
      assert.equal(await page.getAttribute('[aria-selected=true]', 'aria-controls'), expected);
      if (expected === 'graph') await page.waitForSelector('.item');
      await done();
    }
    const {page, done} = await open(file);
    await page.click('#tab-history');
    assert.equal(new URL(page.url()).hash, '#history');
    await page.reload();
    assert.equal(await shown(page), 'history');
    await page.evaluate(() => {
      location.hash = '#graph';
    });  // as a link in the page would
    await page.waitForSelector('.item');
    assert.equal(await shown(page), 'graph');
    await done();
  },

  async 'a page inside of another one, as in a notebook'() {
    const html = readFileSync(join(pages, 'results.html'), 'utf8');
    const notebook = join(scratch, 'notebook.html');
    const quoted = html.replaceAll('&', '&amp;').replaceAll('"', '&quot;');
    writeFileSync(
        notebook,
        `<!doctype html><link rel="icon" href="data:,">` +
            `<iframe srcdoc="${quoted}" width="100%" height="720"></iframe>`);
    const {page, done} = await open(notebook);
    const inner = page.frameLocator('iframe');
    await inner.locator('#tab-graph').click();
    await inner.locator('.item').first().waitFor();
    await inner.locator('#tab-history').click();
    assert.equal(await inner.locator('#history').isVisible(), true);
    await done();
  },

  async 'nodes have the names of their layers'() {
    const {page, done} = await open(join(pages, 'results.html'), '#graph');
    const layer = 'encoder.layer.1.attention.self';
    const details = async () => ({
      title: await page.textContent('.details h2'),
      place: await page.textContent('.details p.quiet'),
    });
    await page.fill('#search', `${layer}.query`);
    const results = await page.$$eval(
        '.result', (all) => all.map((e) => [...e.children].map((part) => part.textContent)));
    assert.equal(results[0][0], `${layer}.query`);
    assert.match(results[0][1], /^slice \u00b7 linear_\d+$/);
    assert.ok(results.some(([what]) => what === `${layer}.query.weight`));
    await page.keyboard.press('Enter');
    await page.waitForSelector('.item.chosen');
    assert.equal((await details()).title, `${layer}.query`);
    assert.match((await details()).place, /^node linear_\d+$/);
    // The neighbours, too.
    const links = await page.$$eval(
        '.details .links .link', (all) => all.map((e) => [e.textContent, e.title]));
    assert.ok(links.some(([text]) => text.startsWith(`${layer}.`)), JSON.stringify(links));
    assert.ok(links.every(([text]) => !/^(linear|matmul)/.test(text)), JSON.stringify(links));
    // One of several operators of a module.
    await find(page, 'softmax_1');
    assert.deepEqual(
        await details(), {title: `${layer}.softmax_1`, place: `node softmax_1 in ${layer}`});
    await done();
  },

  async 'modules open and close'() {
    const {page, done} = await open(join(pages, 'results.html'));
    await showGraph(page);
    assert.equal(await page.locator('.frame').count(), 0);
    const closed = await places(page);
    const group = page.locator('.item.group', {hasText: 'encoder.layer'});
    await group.focus();
    await page.keyboard.press('Enter');
    await page.waitForSelector('.frame');
    assert.equal(await page.locator('.item.group').count(), 3);
    await page.locator('.frame .head').click();
    await page.waitForSelector('.frame', {state: 'detached'});
    assert.deepEqual(await places(page), closed);
    await done();
  },

  async 'the switch keeps positions'() {
    const {page, done} = await open(join(pages, 'results.html'));
    await showGraph(page);
    await find(page, 'softmax_1');
    assert.equal(await page.textContent('.details h2'), 'encoder.layer.1.attention.self.softmax_1');
    await page.click('text=Next change');
    await page.waitForSelector('.item.marked.removed');
    const both = await places(page);
    const removed = await seen(page, '.item.removed'), added = await seen(page, '.item.added');
    assert.ok(removed > 0 && added > 0);
    await page.check('input[value=before]', {force: true});
    assert.deepEqual(await places(page), both);
    assert.equal(await seen(page, '.item.added'), 0);
    assert.equal(await seen(page, '.item.removed'), removed);
    await page.check('input[value=after]', {force: true});
    assert.deepEqual(await places(page), both);
    assert.equal(await seen(page, '.item.added'), added);
    assert.equal(await seen(page, '.item.removed'), 0);
    await done();
  },

  async 'light and dark'() {
    const {page, done} = await open(join(pages, 'results.html'));
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.click('#theme');
    const dark = await ground();
    assert.notEqual(dark, light);
    await page.click('#theme');
    assert.equal(await ground(), light);
    await page.emulateMedia({colorScheme: 'dark'});
    await page.reload();
    assert.equal(await ground(), dark);
    await done();
  },

  async '20,000 nodes in modules'() {
    const {page, done} = await open(join(pages, 'large.html'));
    await page.click('#tab-history');
    assert.equal(await page.locator('tr.step').count(), 200);
    await showGraph(page);
    assert.ok(await page.locator('.item').count() < 60);
    const opening = await workOf(page, async () => {
      await page.locator('.item.group', {hasText: 'encoder.layer'}).click();
      await page.waitForSelector('.frame');
      await page.locator('.item.group').nth(1).click();
      await page.waitForFunction(() => document.querySelectorAll('.frame').length === 2);
    });
    const searching = await workOf(page, () => find(page, 'softmax_777'));
    assert.ok(await page.locator('.item').count() < 300);
    console.log(
        `  work: opening twice ${opening.toFixed()} ms, searching ${searching.toFixed()} ms`);
    assert.ok(opening < 1500 && searching < 1500);
    await done();
  },

  async '20,000 nodes in no module'() {
    const {page, done} = await open(join(pages, 'flat.html'));
    await showGraph(page);
    assert.ok(await page.locator('.item').count() < 60);
    const searching = await workOf(page, () => find(page, 'relu_12345'));
    assert.ok(await page.locator('.item').count() < 200);
    console.log(`  work: searching ${searching.toFixed()} ms`);
    assert.ok(searching < 1500);
    await done();
  },

  async 'names that look like HTML are text'() {
    const {page, done} = await open(join(pages, 'odd.html'));
    assert.equal(await page.textContent('h1'), '<script>alert(1)</script>');
    await showGraph(page);
    await find(page, '<img');
    assert.equal(await page.textContent('.details h2'), '<img src=x onerror=alert(1)>');
    assert.equal(await page.locator('img').count(), 0);
    await done();
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log(`ok    ${name}`);
  } catch (problem) {
    ++failed;
    console.log(`FAIL  ${name}\n${problem.stack}`);
  }
}
await browser.close();
rmSync(scratch, {recursive: true, force: true});
process.exit(failed ? 1 : 0);
