import {
  answerApproval,
  answerDeviceRequest,
  decideLink,
  PlatformRefusal,
  pendingApprovals,
  readDeviceRequest,
  readLink,
  requireOwnOrigin,
  whoAmI,
} from "./base-api.ts";
import { type MobileCommand, readMobileCommand, usage } from "./command.ts";
import { openPhone, SignInRefusal } from "./phone-session.ts";
import { mobileProject } from "./project.ts";

/**
 * `npm run gatehouse -- mobile …`: a mobile app on the command line, for developers of mobile apps (docs/mobile.md). It signs in
 * with supabase-js, keeps its session in a file that only its owner can read, and makes the same calls as a real app.
 */
const commandLine = process.argv.slice(2);
/** Loaded only for commands that call the gateway, since OpenAI's client takes longer to load than everything else. */
const loadGateway = () => import("./gateway.ts");
if (commandLine.length === 0 || commandLine.includes("--help")) console.log(usage);
else {
  try {
    await run(readMobileCommand(commandLine));
  } catch (error) {
    console.error(inWords(error));
    process.exitCode = 1;
  }
}

async function run(command: MobileCommand): Promise<void> {
  const project = mobileProject();
  const phone = openPhone(project, command.sessionFile);
  switch (command.verb) {
    case "sign-in": {
      const { email, aal } = await phone.signIn(command);
      console.log(`Signed in as ${email}${aal === "aal2" ? ", with the second step done" : ""}.`);
      return;
    }
    case "sign-out":
      await phone.signOut();
      console.log("Signed out.");
      return;
    case "whoami": {
      const { user, aal, mfa } = await whoAmI(await phone.caller());
      const due = mfa.satisfied ? "" : " The second step is due: sign in again with --code.";
      console.log(`${user.email} (${user.id}), ${aal}.${due}`);
      return;
    }
    case "models": {
      const { listModels } = await loadGateway();
      for (const { id, kind, name } of await listModels(await phone.caller(), command)) {
        console.log(`${id}\t${kind}\t${name}`);
      }
      return;
    }
    case "chat": {
      const { say } = await loadGateway();
      await say(await phone.caller(), { ...command, write: (text) => process.stdout.write(text) });
      console.log();
      return;
    }
    case "speak": {
      const { speak } = await loadGateway();
      console.log(`Saved ${await speak(await phone.caller(), command)} bytes to ${command.file}.`);
      return;
    }
    case "qr-show":
      requireOwnOrigin(project, command);
      console.log(shown(await readLink(await phone.caller(), command)));
      return;
    case "qr": {
      requireOwnOrigin(project, command);
      const caller = await phone.caller();
      if (command.approve) console.log(shown(await readLink(caller, command)));
      const status = await decideLink(caller, command);
      console.log(status === "approved" ? "Approved. The browser continues automatically." : "Rejected.");
      return;
    }
    case "device": {
      const caller = await phone.caller();
      if (command.approve) console.log(deviceInWords(await readDeviceRequest(caller, command)));
      const status = await answerDeviceRequest(caller, command);
      console.log(status === "approved" ? "Approved. The device finishes signing in by itself." : "Denied.");
      return;
    }
    case "mfa-list": {
      const approvals = await pendingApprovals(await phone.caller());
      if (approvals.length === 0) console.log("Nothing waits for you.");
      for (const { id, device, address, createdAt } of approvals) {
        console.log(`${id}\t${device}\t${address}\t${createdAt}`);
      }
      return;
    }
    case "mfa-answer":
      console.log(`The request is ${await answerApproval(await phone.caller(), command)}.`);
  }
}

/** Describes the requesting device, as an app shows it before the person approves. */
function shown({ device, address, createdAt }: Awaited<ReturnType<typeof readLink>>): string {
  return `Requested by ${device} at ${address}, ${createdAt}.`;
}

/**
 * Describes the requesting app and device, and the requested rights, as an app shows them before the person approves.
 */
function deviceInWords(request: Awaited<ReturnType<typeof readDeviceRequest>>): string {
  const { app, device, address, place, createdAt, rights } = request;
  const from = [device, place, address].filter(Boolean).join(", ");
  return `${app.displayName} asks for a sign-in on ${from}, ${createdAt}.\nIt will be able to: ${rights.join("; ")}.`;
}

/** Explains an error in one sentence. */
function inWords(error: unknown): string {
  if (error instanceof PlatformRefusal) {
    const hint = error.code === "MFA_REQUIRED" ? " Sign in again with --code." : "";
    return `${error.message}${hint} (${error.code}${error.requestId ? `, request ${error.requestId}` : ""})`;
  }
  if (error instanceof SignInRefusal) return error.message;
  return error instanceof Error ? error.message : String(error);
}
