"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

/** The running server, where there is one. */
let client;

async function start() {
  const [command, ...args] = vscode.workspace.getConfiguration("pearl").get("command");
  client = new LanguageClient(
    "pearl",
    "Pearl",
    { command, args },
    { documentSelector: [{ language: "pearl-plan" }, { language: "pearl-actions" }] },
  );
  try {
    await client.start();
  } catch {
    // The client has shown why.
    client = undefined;
    vscode.window.showErrorMessage(
      `${command} does not serve: install pearl and pygls, or set pearl.command.`,
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running) {
    await running.stop();
  }
}

exports.activate = async function (context) {
  const restart = async () => {
    await stop();
    await start();
  };
  context.subscriptions.push(vscode.commands.registerCommand("pearl.restart", restart));
  await start();
};

exports.deactivate = stop;
