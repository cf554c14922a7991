/** How many passkeys the identity backend keeps for an account. */
export const maxPasskeys = 10;

/** How long a passkey's name may be: the identity backend counts bytes of UTF-8. */
export const maxPasskeyNameBytes = 120;
