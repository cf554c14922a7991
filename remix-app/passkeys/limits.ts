/** The maximum number of passkeys per account in the identity backend. */
export const maxPasskeys = 10;

/** The maximum length of a passkey's name. The identity backend counts UTF-8 bytes. */
export const maxPasskeyNameBytes = 120;
