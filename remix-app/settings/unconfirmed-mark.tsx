/** Marks an addition that was made without our step-up, until its owner confirms it. */
export function UnconfirmedMark() {
  return <span className="font-medium text-small text-warn">Unconfirmed</span>;
}
