import type { ClientStep, RegisteredClient } from "./openid-clients.ts";
import { endsSecretsNow, type RegistryStepText, removesEntries } from "./registry-steps.ts";

/** The title and effects of each change to an OpenID client. */
export const clientSteps: Record<ClientStep, RegistryStepText<RegisteredClient>> = {
  edit: {
    title: "Edit client",
    destroys: (client, typed) =>
      typed !== undefined &&
      (removesEntries(client, { typed, lists: ["redirectUris", "postLogoutRedirectUris"] }) ||
        (client.allowsDeviceGrant && !("allowsDeviceGrant" in typed)) ||
        (!client.requiresPkce && typed.requiresPkce !== "no")),
    effects: ({ displayName }) => [
      `Once you confirm, people signing in to ${displayName} can be returned only to the redirect URIs below.`,
      "Removed scopes stop working immediately, including in existing tokens.",
    ],
  },
  enable: {
    title: "Enable client",
    effects: ({ displayName }) => [
      `Once you confirm, people can sign in to ${displayName} again.`,
      "Tokens from before it was disabled stay revoked.",
    ],
  },
  disable: {
    title: "Disable client",
    destroys: () => true,
    effects: ({ displayName }) => [
      `Once you confirm, people can’t sign in to ${displayName}. Its tokens are revoked for all its users.`,
      "Its registration and secrets stay, and you can enable it again.",
    ],
  },
  rotate: {
    title: "Rotate secret",
    destroys: endsSecretsNow,
    effects: ({ displayName }) => [
      `${displayName} gets a new secret, shown once on the next page.`,
      "The current secret stops working as you choose below.",
    ],
  },
};
