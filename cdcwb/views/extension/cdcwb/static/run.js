/* Runs the cells of the notebook that `cdcwb open` names in the configuration of the page, once, if its kernel is new: after a
   reload of the page the kernel has what the cells made. It is a module as JupyterLab loads those of extensions. */
(() => {
  const { cdcwbRun: name } = JSON.parse(document.getElementById("jupyter-config-data").textContent);

  async function run(app) {
    const { sessions } = app.serviceManager;
    await sessions.ready;
    if ([...sessions.running()].some((session) => session.path === name)) return;
    await app.restored;
    const find = () => [...app.shell.widgets("main")].find((open) => open.context?.path === name);
    while (!find()) await new Promise((done) => setTimeout(done, 100));
    const notebook = find();
    await notebook.context.ready;
    await notebook.sessionContext.ready;
    app.shell.activateById(notebook.id);
    await app.commands.execute("notebook:run-all-cells");
  }

  const plugin = { id: "cdcwb:run", autoStart: true, activate: (app) => { if (name) run(app); } };
  (globalThis._JUPYTERLAB ??= {}).cdcwb = { init: () => undefined, get: async () => () => ({ __esModule: true, default: plugin }) };
})();
