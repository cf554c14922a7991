/** Marks a sign-in method that was added without our step-up authentication, until the account's owner confirms it. */
export function UnconfirmedMark() {
  return <span className="font-medium text-small text-warn">Unconfirmed</span>;
}
