import type { AppStep, RegisteredApp } from "./apps.ts";

/** What each change of an app is called, and what it will do. */
export const appSteps: Record<AppStep, { title: string; effects: (app: RegisteredApp) => string[] }> = {
  edit: {
    title: "Edit the app",
    effects: ({ displayName }) => [
      `From the moment you confirm, ${displayName} signs people in at these origins alone.`,
      "A scope that you take away ends at once, for credentials that exist too.",
    ],
  },
  enable: {
    title: "Enable the app",
    effects: ({ displayName, origins }) => [
      `From the moment you confirm, ${displayName} can sign people in again, at ${origins.join(", ")}.`,
      "What it held before it was disabled stays ended.",
    ],
  },
  disable: {
    title: "Disable the app",
    effects: ({ displayName }) => [
      `From the moment you confirm, ${displayName} can do nothing: its sessions and tokens end, for all of its users.`,
      "Its registration, secrets and keys stay, and you can enable it again.",
    ],
  },
  rotate: {
    title: "Rotate the secret",
    effects: ({ displayName, secrets }) => [
      `${displayName} gets a new secret, which is shown once, on the next page.`,
      `${secrets.length === 1 ? "The secret" : `The ${secrets.length} secrets`} of now ${secrets.length === 1 ? "ends" : "end"} as you choose below.`,
    ],
  },
  link: {
    title: "Link a workspace",
    effects: ({ displayName }) => [
      `From the moment you confirm, ${displayName} can act in the workspace at the gateway, for members of it.`,
      "What it uses there is recorded, and costs the workspace no credits.",
    ],
  },
  unlink: {
    title: "Unlink a workspace",
    effects: ({ displayName }) => [
      `From the moment you confirm, ${displayName} is refused in the workspace, with tokens and keys that exist too.`,
    ],
  },
};
