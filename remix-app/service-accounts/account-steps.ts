import type { Confirmation } from "../admin/confirmation.ts";
import type { ServiceAccount } from "./service-accounts.ts";

/** A change to a service account. The last segment of the page's URL names it. */
export type AccountStep = keyof typeof accountSteps;

/** What the pages of a step show. Only revoking, which can't be undone, has to be typed. */
interface StepText {
  title: string;
  submit: string;
  effects: (account: Pick<ServiceAccount, "name">) => string[];
  destroys: boolean;
}

/** The title and effects of each change to a service account. */
export const accountSteps = {
  edit: {
    title: "Edit service account",
    submit: "Save changes",
    destroys: false,
    effects: () => [
      "Once you save, removed scopes and addresses stop working immediately, including for existing tokens.",
      "Added scopes are in the tokens that the service account gets from then on.",
    ],
  },
  disable: {
    title: "Disable service account",
    submit: "Disable",
    destroys: false,
    effects: ({ name }) => [
      `Once you confirm, ${name} gets no tokens, and its existing tokens stop working immediately.`,
      "Its credentials stay, and you can enable it again.",
    ],
  },
  enable: {
    title: "Enable service account",
    submit: "Enable",
    destroys: false,
    effects: ({ name }) => [`Once you confirm, ${name} can get tokens again with its current credentials.`],
  },
  rotate: {
    title: "New secret",
    submit: "Create secret",
    destroys: false,
    effects: ({ name }) => [
      `${name} gets a new secret, shown once on the next page.`,
      "Its other secrets stop working as you choose below. Its keys keep working.",
    ],
  },
  "add-key": {
    title: "Add public key",
    submit: "Add key",
    destroys: false,
    effects: ({ name }) => [
      `Once you confirm, a program with the private key can act as ${name}.`,
      "Its other credentials keep working. Remove the earlier key once the program uses the new one.",
    ],
  },
  remove: {
    title: "Remove credential",
    submit: "Remove credential",
    destroys: false,
    effects: ({ name }) => [
      `Once you confirm, ${name} can’t use this credential any more, and tokens that it got with it stop working.`,
      "Its other credentials keep working.",
    ],
  },
  revoke: {
    title: "Revoke service account",
    submit: "Revoke",
    destroys: true,
    effects: ({ name }) => [
      `Once you confirm, ${name} stops working immediately and permanently. Its tokens and credentials end.`,
      "API keys that it created keep working until somebody revokes them.",
    ],
  },
} as const satisfies Record<string, StepText>;

/** Returns what to type before a step, if it destroys something. */
export function confirmStep(step: AccountStep, { name }: Pick<ServiceAccount, "name">): Confirmation | null {
  return accountSteps[step].destroys ? { text: name, what: "the service account’s name" } : null;
}

/** Returns the step that a URL names, or null if it doesn't suit the service account. */
export function stepFor(
  name: string | undefined,
  { state, enabled }: Pick<ServiceAccount, "state" | "enabled">,
): AccountStep | null {
  if (name === undefined || !Object.hasOwn(accountSteps, name) || state === "revoked") return null;
  const step = name as AccountStep;
  if (step === "enable" && enabled) return null;
  return step === "disable" && !enabled ? null : step;
}
