import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createTransport } from "nodemailer";
import { afterEach, expect, test } from "vitest";
import { freePort } from "../../ports.ts";

type Mailbox = { smtp: number; web: number; child: ChildProcess };

const running: ChildProcess[] = [];
const directories: string[] = [];

afterEach(async () => {
  await Promise.all(running.splice(0).map(end));
  await Promise.all(directories.splice(0).map((directory) => rm(directory, { recursive: true, force: true })));
});

async function newDirectory(): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), "gatehouse-mail-"));
  directories.push(directory);
  return directory;
}

async function startMailbox(directory: string): Promise<Mailbox> {
  const [smtp, web] = [await freePort(), await freePort()];
  const child = spawn(process.execPath, [path.join(import.meta.dirname, "main.ts")], {
    env: { ...process.env, SMTP_PORT: String(smtp), WEB_PORT: String(web), MAIL_DIR: directory },
    stdio: "ignore",
  });
  running.push(child);
  await expect.poll(() => subjects({ web }).catch(() => null), { timeout: 15_000 }).not.toBeNull();
  return { smtp, web, child };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await ended;
}

async function send({ smtp }: Mailbox, subject: string): Promise<void> {
  const transport = createTransport({ host: "127.0.0.1", port: smtp, secure: false, ignoreTLS: true });
  await transport.sendMail({ from: "a@gatehouse.test", to: "b@gatehouse.test", subject, text: subject });
}

async function subjects({ web }: Pick<Mailbox, "web">): Promise<string[]> {
  const response = await fetch(`http://127.0.0.1:${web}/api/email`);
  const mails = (await response.json()) as { subject: string }[];
  return mails.map(({ subject }) => subject);
}

test("a mailbox keeps its emails after kill -9, and starting another mailbox does not delete them", async () => {
  const directory = await newDirectory();
  const first = await startMailbox(directory);
  await send(first, "kept");
  await expect.poll(() => subjects(first)).toEqual(["kept"]);

  const other = await startMailbox(await newDirectory());
  expect(await subjects(other)).toEqual([]);
  expect(await subjects(first)).toEqual(["kept"]);

  await end(first.child);
  expect(await subjects(await startMailbox(directory))).toEqual(["kept"]);
});
