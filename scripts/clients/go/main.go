// openai-go, each check reported as a line of JSON on standard output.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

var (
	ctx    = context.Background()
	client = openai.NewClient()
	model  = os.Getenv("CLIENT_MODEL")
)

// The demo model calls a tool when the prompt says so, and then answers with what the tool returned.
const sumQuestion = `What is 17 + 25? Please call add with {"a":17,"b":25}`

var numbers = objectSchema(map[string]any{"a": map[string]any{"type": "number"}, "b": map[string]any{"type": "number"}}, "a", "b")
var person = objectSchema(map[string]any{"name": map[string]any{"type": "string"}, "age": map[string]any{"type": "integer"}}, "name", "age")

func main() {
	check("plain", "chat", chat)
	check("stream", "chat: stream with usage", chatStream)
	check("tools", "chat: tool loop and conversation", func() error { return chatToolLoop(ask) })
	check("tools", "chat: tool loop and conversation, streamed", func() error { return chatToolLoop(askStreamed) })
	check("structured", "chat: structured output", chatStructured)
	check("plain", "responses", respond)
	check("stream", "responses: stream", respondStreamed)
	check("tools", "responses: tool loop and conversation", responsesToolLoop)
	check("structured", "responses: structured output", responsesStructured)
}

func objectSchema(properties map[string]any, required ...string) map[string]any {
	return map[string]any{
		"type": "object", "properties": properties, "required": required, "additionalProperties": false,
	}
}

func chatParams(prompt string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: model,
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.DeveloperMessage("Be brief."),
			openai.UserMessage(prompt),
		},
	}
}

func ask(params openai.ChatCompletionNewParams) (*openai.ChatCompletion, error) {
	return client.Chat.Completions.New(ctx, params)
}

func askStreamed(params openai.ChatCompletionNewParams) (*openai.ChatCompletion, error) {
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := client.Chat.Completions.NewStreaming(ctx, params)
	defer stream.Close()
	accumulator := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		if !accumulator.AddChunk(stream.Current()) {
			return nil, fmt.Errorf("the accumulator refused %s", stream.Current().RawJSON())
		}
	}
	return &accumulator.ChatCompletion, stream.Err()
}

func chat() error {
	completion, err := ask(chatParams("Hello from openai-go"))
	if err != nil {
		return err
	}
	return expect("Hello from openai-go", completion.Choices[0].Message.Content)
}

func chatStream() error {
	completion, err := askStreamed(chatParams("Hello from openai-go"))
	if err != nil {
		return err
	}
	if completion.Usage.TotalTokens <= 0 {
		return fmt.Errorf("no tokens were counted")
	}
	return expect("Hello from openai-go", completion.Choices[0].Message.Content)
}

func chatToolLoop(ask func(openai.ChatCompletionNewParams) (*openai.ChatCompletion, error)) error {
	params := chatParams(sumQuestion)
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "add", Description: openai.String("Add two numbers."), Parameters: numbers,
	})}
	first, err := ask(params)
	if err != nil {
		return err
	}
	params.Messages = append(params.Messages, first.Choices[0].Message.ToParam())
	for _, call := range first.Choices[0].Message.ToolCalls {
		sum, err := add(call.Function.Arguments)
		if err != nil {
			return err
		}
		params.Messages = append(params.Messages, openai.ToolMessage(sum, call.ID))
	}
	second, err := ask(params)
	if err != nil {
		return err
	}
	if err := expect("42", second.Choices[0].Message.Content); err != nil {
		return err
	}
	params.Messages = append(params.Messages, second.Choices[0].Message.ToParam(), openai.UserMessage("And again"))
	third, err := ask(params)
	if err != nil {
		return err
	}
	return expect("And again", third.Choices[0].Message.Content)
}

func chatStructured() error {
	params := chatParams("Jason is 25 years old.")
	params.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{
		OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
				Name: "person", Schema: person, Strict: openai.Bool(true),
			},
		},
	}
	completion, err := ask(params)
	if err != nil {
		return err
	}
	return expectPerson(completion.Choices[0].Message.Content)
}

func responseParams(prompt string) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: model,
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(prompt)},
	}
}

func respond() error {
	response, err := client.Responses.New(ctx, responseParams("Hello from openai-go"))
	if err != nil {
		return err
	}
	return expect("Hello from openai-go", response.OutputText())
}

func respondStreamed() error {
	stream := client.Responses.NewStreaming(ctx, responseParams("Hello from openai-go"))
	defer stream.Close()
	var text strings.Builder
	for stream.Next() {
		if event := stream.Current(); event.Type == "response.output_text.delta" {
			text.WriteString(event.Delta)
		}
	}
	if err := stream.Err(); err != nil {
		return err
	}
	return expect("Hello from openai-go", text.String())
}

func responsesToolLoop() error {
	input := responses.ResponseInputParam{
		responses.ResponseInputItemParamOfMessage(sumQuestion, responses.EasyInputMessageRoleUser),
	}
	ask := func() (*responses.Response, error) {
		return client.Responses.New(ctx, responses.ResponseNewParams{
			Model: model,
			Input: responses.ResponseNewParamsInputUnion{OfInputItemList: input},
			Tools: []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{
				Name: "add", Description: openai.String("Add two numbers."), Parameters: numbers, Strict: openai.Bool(true),
			}}},
		})
	}
	first, err := ask()
	if err != nil {
		return err
	}
	for _, item := range first.Output {
		if item.Type != "function_call" {
			continue
		}
		call := item.AsFunctionCall()
		sum, err := add(call.Arguments)
		if err != nil {
			return err
		}
		input = append(input,
			responses.ResponseInputItemParamOfFunctionCall(call.Arguments, call.CallID, call.Name),
			responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
				CallID: openai.String(call.CallID),
				Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String(sum)},
			}})
	}
	second, err := ask()
	if err != nil {
		return err
	}
	if err := expect("42", second.OutputText()); err != nil {
		return err
	}
	input = append(input,
		responses.ResponseInputItemParamOfMessage(second.OutputText(), responses.EasyInputMessageRoleAssistant),
		responses.ResponseInputItemParamOfMessage("And again", responses.EasyInputMessageRoleUser))
	third, err := ask()
	if err != nil {
		return err
	}
	return expect("And again", third.OutputText())
}

func responsesStructured() error {
	params := responseParams("Jason is 25 years old.")
	params.Text = responses.ResponseTextConfigParam{
		Format: responses.ResponseFormatTextConfigParamOfJSONSchema("person", person),
	}
	response, err := client.Responses.New(ctx, params)
	if err != nil {
		return err
	}
	return expectPerson(response.OutputText())
}

func add(arguments string) (string, error) {
	var numbers struct{ A, B float64 }
	err := json.Unmarshal([]byte(arguments), &numbers)
	return fmt.Sprint(numbers.A + numbers.B), err
}

func expect(part, whole string) error {
	if !strings.Contains(whole, part) {
		return fmt.Errorf("expected %q in %q", part, whole)
	}
	return nil
}

func expectPerson(text string) error {
	var person struct {
		Name *string
		Age  *int
	}
	if err := json.Unmarshal([]byte(text), &person); err != nil {
		return err
	}
	if person.Name == nil || person.Age == nil {
		return fmt.Errorf("a member is missing in %q", text)
	}
	return nil
}

// Runs one check. A failure does not stop the next one.
func check(feature, name string, run func() error) {
	report := map[string]any{"check": name, "feature": feature, "ok": true}
	defer func() {
		if reason := recover(); reason != nil {
			report["ok"], report["error"] = false, fmt.Sprint(reason)
		}
		line, _ := json.Marshal(report)
		fmt.Println(string(line))
	}()
	if err := run(); err != nil {
		report["ok"], report["error"] = false, err.Error()
	}
}
