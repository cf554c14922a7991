import type { AppStep, RegisteredApp } from "./apps.ts";
import { endsSecretsNow, type RegistryStepText, removesEntries } from "./registry-steps.ts";

/** The title and effects of each change to an app. */
export const appSteps: Record<AppStep, RegistryStepText<RegisteredApp>> = {
  edit: {
    title: "Edit app",
    destroys: (app, typed) => typed !== undefined && removesEntries(app, { typed, lists: ["origins"] }),
    effects: ({ displayName }) => [
      `Once you confirm, ${displayName} signs people in only at these origins.`,
      "Removed scopes stop working immediately, including for existing credentials.",
    ],
  },
  enable: {
    title: "Enable app",
    effects: ({ displayName, origins }) => [
      `Once you confirm, ${displayName} can sign people in again, at ${origins.join(", ")}.`,
      "Sessions and tokens from before it was disabled stay revoked.",
    ],
  },
  disable: {
    title: "Disable app",
    destroys: () => true,
    effects: ({ displayName }) => [
      `Once you confirm, ${displayName} can’t sign people in or call the API. Its sessions and tokens are revoked for all its users.`,
      "Its registration, secrets and keys stay, and you can enable it again.",
    ],
  },
  rotate: {
    title: "Rotate secret",
    destroys: endsSecretsNow,
    effects: ({ displayName, secrets }) => [
      `${displayName} gets a new secret, shown once on the next page.`,
      secrets.length === 1
        ? "The current secret stops working as you choose below."
        : `The ${secrets.length} current secrets stop working as you choose below.`,
    ],
  },
  link: {
    title: "Link workspace",
    effects: ({ displayName }) => [
      `Once you confirm, ${displayName} can use the gateway in the workspace on behalf of its members.`,
      "Its usage there is recorded but costs the workspace no credits.",
    ],
  },
  unlink: {
    title: "Unlink workspace",
    destroys: () => true,
    effects: ({ displayName }) => [
      `Once you confirm, ${displayName} can no longer use the gateway in the workspace, even with existing tokens and keys.`,
    ],
  },
};
