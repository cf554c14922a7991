import { parseArgs } from "node:util";
import { z } from "zod";

export const usage = `A mobile app without a screen. See docs/mobile.md.

npm run gatehouse -- mobile sign-in <email> [--code <6 digits>]
npm run gatehouse -- mobile sign-out | whoami
npm run gatehouse -- mobile models
npm run gatehouse -- mobile chat <text> [--model <id>]
npm run gatehouse -- mobile speak <text> [--voice <name>] [--file <path>.wav]
npm run gatehouse -- mobile qr show|approve|reject <link of the QR code>
npm run gatehouse -- mobile approve-device|deny-device <code that the device shows>
npm run gatehouse -- mobile mfa list
npm run gatehouse -- mobile mfa approve <id> --pair-code <6 digits>
npm run gatehouse -- mobile mfa reject <id>

Options
  --session <file>     where the session is kept (default .local/mobile-session.json, readable by its owner alone)
  --workspace <id>     for models, chat and speak; else the first of yours
  --unlock <how>       how this phone was unlocked to approve: passcode (default), biometric, none
  --device <name>      what this phone is called (default "Command-line phone")

The password is read from MOBILE_PASSWORD, else from standard input. MOBILE_TOTP_SECRET, an authenticator's key, takes
the place of --code. Addresses come from BASE_URL, SUPABASE_URL, SUPABASE_PUBLISHABLE_KEY and AI_URL, else from the
running local stack.`;

const sixDigits = z.string().regex(/^\d{6}$/, "a code has 6 digits");
const unlock = z.enum(["passcode", "biometric", "none"], "--unlock is passcode, biometric or none");

/** The facts about the phone that are sent with an approval. */
export interface PhoneDevice {
  name: string;
  platform: "ios" | "android";
  appLock: boolean;
  localAuthentication: z.infer<typeof unlock>;
}

/** The content of a QR code: `{origin}/qr/open#{id}.{secret}`. */
interface QrLink {
  origin: string;
  id: string;
  secret: string;
}

type Deed =
  | { verb: "sign-in"; email: string; code: string | null }
  | { verb: "sign-out" | "whoami" | "mfa-list" }
  | { verb: "models"; workspaceId: string | null }
  | { verb: "chat"; text: string; model: string; workspaceId: string | null }
  | { verb: "speak"; text: string; voice: string | null; file: string; workspaceId: string | null }
  | ({ verb: "qr-show" } & QrLink)
  | ({ verb: "qr"; approve: boolean; device: PhoneDevice } & QrLink)
  | { verb: "device"; approve: boolean; userCode: string; device: PhoneDevice }
  | { verb: "mfa-answer"; approve: boolean; id: string; pairCode: string; device: PhoneDevice };

/** A parsed `npm run gatehouse -- mobile` command, and the file with its session. */
export type MobileCommand = Deed & { sessionFile: string };

/**
 * Parses the command line.
 * @throws Error with a one-sentence message for the user
 */
export function readMobileCommand(argv: string[]): MobileCommand {
  const { values, positionals } = parseArgs({
    args: argv,
    allowPositionals: true,
    options: {
      code: { type: "string" },
      device: { type: "string", default: "Command-line phone" },
      file: { type: "string", default: "speech.wav" },
      model: { type: "string", default: "demo-chat" },
      "pair-code": { type: "string" },
      session: { type: "string", default: ".local/mobile-session.json" },
      unlock: { type: "string", default: "passcode" },
      voice: { type: "string" },
      workspace: { type: "string" },
    },
  });
  const workspaceId = values.workspace === undefined ? null : read(z.uuid("--workspace takes an id"), values.workspace);
  const localAuthentication = read(unlock, values.unlock);
  const device: PhoneDevice = {
    name: values.device,
    platform: "android",
    appLock: localAuthentication !== "none",
    localAuthentication,
  };
  const [verb = "", ...words] = positionals;
  const sessionFile = values.session;
  switch (verb) {
    case "sign-in": {
      const email = read(z.email("name the email to sign in with"), only(words));
      const code = values.code === undefined ? null : read(sixDigits, values.code.replaceAll(" ", ""));
      return { verb, email, code, sessionFile };
    }
    case "sign-out":
    case "whoami":
      none(words);
      return { verb, sessionFile };
    case "models":
      none(words);
      return { verb, workspaceId, sessionFile };
    case "chat":
      return { verb, text: textOf(words), model: values.model, workspaceId, sessionFile };
    case "speak":
      return { verb, text: textOf(words), voice: values.voice ?? null, file: values.file, workspaceId, sessionFile };
    case "qr": {
      if (words[0] === "show") return { verb: "qr-show", ...linkOf(only(words.slice(1))), sessionFile };
      const { approve, rest } = decisionOf(words);
      return { verb, approve, ...linkOf(only(rest)), device, sessionFile };
    }
    case "approve-device":
    case "deny-device": {
      if (words.length === 0) throw new Error("Enter the code that the device shows.");
      const userCode = words.join("");
      return { verb: "device", approve: verb === "approve-device", userCode, device, sessionFile };
    }
    case "mfa": {
      if (words[0] === "list") {
        none(words.slice(1));
        return { verb: "mfa-list", sessionFile };
      }
      const { approve, rest } = decisionOf(words);
      const id = read(z.uuid("name the request by its id: mfa list shows it"), only(rest));
      const shown = (values["pair-code"] ?? "").replaceAll(" ", "");
      const pairCode = approve ? read(sixDigits, shown) : "";
      return { verb: "mfa-answer", approve, id, pairCode, device, sessionFile };
    }
    default:
      throw new Error(`${verb ? `${verb}: no such command.` : "Say what to do."}\n\n${usage}`);
  }
}

function linkOf(link: string): QrLink {
  const url = URL.canParse(link) ? new URL(link) : null;
  const [, id, secret] = /^#([0-9a-f-]{36})\.([\w-]{1,128})$/.exec(url?.hash ?? "") ?? [];
  if (url && id && secret && url.href === `${url.origin}/qr/open${url.hash}`) return { origin: url.origin, id, secret };
  throw new Error("This is not the link of a QR code, which looks like https://…/qr/open#<id>.<secret>");
}

function decisionOf([word = "", ...rest]: string[]): { approve: boolean; rest: string[] } {
  if (word !== "approve" && word !== "reject") throw new Error("Say approve or reject.");
  return { approve: word === "approve", rest };
}

function textOf(words: string[]): string {
  if (words.length === 0) throw new Error("Say what, in words behind the command.");
  return words.join(" ");
}

function only([first = "", ...more]: string[]): string {
  none(more);
  return first;
}

function none(words: string[]): void {
  if (words.length > 0) throw new Error(`${words[0]}: one thing too many.`);
}

function read<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new Error(`${parsed.error.issues[0]?.message ?? "not valid"}.`);
}
