/** Accounts in one browser; `private.sign_in_account` says the same. */
export const maxAccounts = 10;

/** How long a switch waits for another one in the same browser, a dead one's lease of 10 s included, and how often it looks. */
export const leaseWaitMs = 11_000;
export const leasePollMs = 60;
/** How often a switch takes up what another tab has rotated meanwhile. */
export const maxAdoptions = 4;
