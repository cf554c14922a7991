interface Sent {
  page: string;
  form: string;
  held: readonly (string | boolean)[];
}

/** In this document alone: it is gone with it. */
let sent: Sent | null = null;
let failed = false;

/** Keeps what a form holds that is being sent, but for passwords, until it is answered. */
export function keepSent(form: HTMLFormElement): void {
  const held = fieldsOf(form).map((field) => (isTicked(field) ? field.checked : field.value));
  sent = { page: location.pathname, form: nameOf(form), held };
  failed = false;
}

/** The form was answered. */
export function forgetSent(): void {
  sent = null;
}

/** What there was of an answer was a failure, and took the form's place. */
export function failSent(): void {
  failed = sent !== null;
}

/** The form is gone: where nothing has failed by then, the page that it led to took its place. */
export function forgetAnswered(): void {
  if (!failed) sent = null;
}

/**
 * Puts what was sent without an answer back into its form, once.
 * @returns whether this is the form
 */
export function fillUnanswered(form: HTMLFormElement): boolean {
  if (!sent || !failed) return false;
  const { page, form: name, held } = sent;
  if (page !== location.pathname) sent = null;
  if (sent === null || name !== nameOf(form)) return false;
  sent = null;
  for (const [index, field] of fieldsOf(form).entries()) {
    const value = held[index];
    if (typeof value === "boolean" && isTicked(field)) field.checked = value;
    if (typeof value === "string" && !isTicked(field)) field.value = value;
  }
  return true;
}

type Field = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

/** What people fill in, in order. */
function fieldsOf(form: HTMLFormElement): Field[] {
  return [...form.querySelectorAll<Field>("input:not([type=hidden], [type=password], [type=file]), select, textarea")];
}

function isTicked(field: Field): field is HTMLInputElement {
  return field instanceof HTMLInputElement && (field.type === "checkbox" || field.type === "radio");
}

/** Whose, and about what: by what it sends of itself; and of which fields. */
function nameOf(form: HTMLFormElement): string {
  const own = [...form.querySelectorAll<HTMLInputElement>("input[type=hidden]")];
  return JSON.stringify([own.map(({ name, value }) => [name, value]), fieldsOf(form).map(({ name }) => name)]);
}
