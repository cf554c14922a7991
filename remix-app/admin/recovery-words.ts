const kinds: Record<string, string> = {
  create: "Override made",
  revoke: "Override revoked",
  send: "Recovery mail",
  consume: "Recovery mail used",
  reject: "Recovery attempt refused",
  unban_attempt: "Lifting the ban",
  user_create_attempt: "Making the account",
  login_bypass: "Sign-in under an override",
};

/** What an event of a recovery is called, with what came of it. */
export function recoveryEventLabel({ kind, outcome }: { kind: string; outcome: string }): string {
  return `${kinds[kind] ?? kind.replaceAll("_", " ")} (${outcome.replaceAll("_", " ")})`;
}

const attempts: Record<string, string> = {
  password: "passwords",
  code: "second-factor codes",
  mail: "mails",
  sign_up: "sign-ups",
  override_password: "passwords under an override",
};

const consequences: Record<string, string> = {
  refuse: "then refused",
  challenge: "then a bot challenge",
  refuse_new: "then refused without a bot challenge",
  block: "then blocked",
};

/** A counter of an email as a sentence: "12 of 20 passwords an hour, then a bot challenge". */
export function counterSentence(counter: {
  action: string;
  used: number;
  attempts: number;
  perSeconds: number;
  whenEmpty: string;
}): string {
  const { action, used, perSeconds, whenEmpty } = counter;
  const what = attempts[action] ?? action.replaceAll("_", " ");
  const minutes = Math.round(perSeconds / 60);
  const per =
    minutes === 60 ? "an hour" : minutes > 60 ? `in ${Math.round(minutes / 60)} hours` : `in ${minutes} minutes`;
  return `${used} of ${counter.attempts} ${what} ${per}, ${consequences[whenEmpty] ?? whenEmpty}`;
}
