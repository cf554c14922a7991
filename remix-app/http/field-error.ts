/**
 * Returns the message of a refusal as the errors of a form. Status 400 is about the input, so its message goes to the
 * field. Any other refusal, such as a limit or an outage, belongs to the whole form.
 */
export function toFormErrors(
  field: string,
  { status, message }: { status: number; message: string },
): { fieldErrors: Record<string, string[]> } | { formErrors: string[] } {
  return status === 400 ? { fieldErrors: { [field]: [message] } } : { formErrors: [message] };
}
