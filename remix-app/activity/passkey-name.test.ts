import { describe, expect, test } from "vitest";
import { passkeyName } from "./passkey-name.ts";

// The AAGUID of 1Password, and the all-zero AAGUID that hides the authenticator (WebAuthn level 3, section 5.1.3,
// attestation "none").
const onePassword = "bada5566-a7aa-401f-bd96-45619a55120d";
const none = "00000000-0000-0000-0000-000000000000";

describe("a passkey's name", () => {
  test("uses the name that the owner gave the passkey", () => {
    expect(passkeyName({ name: "Work laptop", aaguid: onePassword, device: "Chrome on macOS" })).toBe("Work laptop");
  });

  test("falls back to the passkey's provider if the identity backend has no name for the passkey", () => {
    expect(passkeyName({ name: "Passkey", aaguid: onePassword, device: "Chrome on macOS" })).toBe("1Password");
    expect(passkeyName({ name: "", aaguid: onePassword.toUpperCase(), device: null })).toBe("1Password");
  });

  test("names a passkey after the browser and system that added it if the passkey's provider is unknown", () => {
    expect(passkeyName({ name: "Passkey", aaguid: none, device: "Firefox on Linux" })).toBe("Firefox on Linux");
    expect(passkeyName({ name: null, aaguid: null, device: "Firefox on Linux" })).toBe("Firefox on Linux");
  });

  test("a passkey without a name, known provider or device is called Passkey", () => {
    expect(passkeyName({ name: "", aaguid: null, device: null })).toBe("Passkey");
    expect(passkeyName({ name: null, aaguid: "constructor", device: null })).toBe("Passkey");
  });
});
