/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/eval_mmlu.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/mmlu_csv.h"
#include "cli/progress.h"
#include "cli/whole_file.h"

enum { CHOICES = 4, COLUMNS = 6, PATH_BYTES = 4096, NAME_BYTES = 256, MOST_QUESTIONS = 1 << 20 };

static const char test_suffix[] = "_test.csv", dev_suffix[] = "_dev.csv";

struct question {
    wisp_text text, choice[CHOICES];
    int answer; /* from 0 */
};

struct questions {
    char *text; /* of the file */
    struct question *list;
    size_t n, capacity;
};

struct subject {
    char name[NAME_BYTES];
    size_t asked, correct, too_long;
};

struct tokens {
    int32_t *ids;
    size_t n, capacity;
};

struct mmlu {
    const struct mmlu_options *options;
    const char *folder;
    wisp_model *model;
    wisp_session *session;
    size_t vocabulary, max_tokens;
    struct subject *subjects;
    size_t n;
    char *prompt;
    size_t length, capacity;
    struct tokens tokens[CHOICES];
    float *logits; /* [vocabulary] */
    float *scores; /* [max_tokens] */
};

/* ---- files ---------------------------------------------------------------------------------- */

static int parse_answer(wisp_text field) {
    if (field.length != 1)
        return -1;
    const char c = field.bytes[0];
    return c >= 'A' && c <= 'D' ? c - 'A' : c >= '0' && c <= '3' ? c - '0' : -1;
}

static bool is_header(const wisp_text fields[COLUMNS]) {
    return fields[0].length == 8 && memcmp(fields[0].bytes, "question", 8) == 0 &&
           fields[1].length == 1 && fields[1].bytes[0] == 'A';
}

static int read_questions(const char *path, struct questions *q) {
    size_t length, count;
    wisp_text fields[COLUMNS];
    int code = read_whole_file(path, &q->text, &length);
    if (code != EXIT_GOOD)
        return code;
    struct mmlu_csv csv = {q->text, q->text + length, 1};
    for (size_t line = 1; mmlu_csv_next(&csv, fields, COLUMNS, &count); line = csv.line) {
        const int answer = count == COLUMNS ? parse_answer(fields[COLUMNS - 1]) : -1;
        if (line == 1 && count == COLUMNS && is_header(fields))
            continue;
        if (answer < 0 || q->n == MOST_QUESTIONS) {
            complain("%s: line %zu: not a question, four choices and an answer (A to D, or 0 to 3)",
                     path, line);
            return EXIT_INPUT;
        }
        if (q->n == q->capacity) {
            q->capacity = 2 * q->capacity + 64;
            struct question *list = realloc(q->list, q->capacity * sizeof *list);
            if (!list)
                return complain_of_memory();
            q->list = list;
        }
        struct question *made = &q->list[q->n++];
        made->text = fields[0];
        memcpy(made->choice, fields + 1, sizeof made->choice);
        made->answer = answer;
    }
    if (csv.at == csv.end)
        return EXIT_GOOD;
    complain("%s: line %zu: a quoted field does not end", path, csv.line);
    return EXIT_INPUT;
}

static void free_questions(struct questions *q) {
    free(q->text);
    free(q->list);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct subject *)a)->name, ((const struct subject *)b)->name);
}

static int list_subjects(struct mmlu *m) {
    DIR *folder = opendir(m->folder);
    if (!folder) {
        complain("%s: cannot open: %s", m->folder, strerror(errno));
        return EXIT_FAILED;
    }
    int code = EXIT_GOOD;
    for (const struct dirent *entry; code == EXIT_GOOD && (entry = readdir(folder));) {
        const size_t length = strlen(entry->d_name), suffix = sizeof test_suffix - 1;
        if (length <= suffix || length - suffix >= NAME_BYTES ||
            strcmp(entry->d_name + length - suffix, test_suffix) != 0)
            continue;
        struct subject *subjects = realloc(m->subjects, (m->n + 1) * sizeof *subjects);
        if (!subjects) {
            code = complain_of_memory();
            break;
        }
        m->subjects = subjects;
        m->subjects[m->n] = (struct subject){0};
        memcpy(m->subjects[m->n++].name, entry->d_name, length - suffix);
    }
    closedir(folder);
    if (code == EXIT_GOOD && m->n == 0) {
        complain("%s: has no file that ends with %s", m->folder, test_suffix);
        return EXIT_INPUT;
    }
    if (m->n > 0)
        qsort(m->subjects, m->n, sizeof *m->subjects, by_name);
    return code;
}

/* ---- prompts -------------------------------------------------------------------------------- */

static bool append(struct mmlu *m, const char *bytes, size_t length) {
    if (length > m->capacity - m->length) {
        const size_t capacity = 2 * (m->length + length) + 1024;
        char *prompt = realloc(m->prompt, capacity);
        if (!prompt)
            return false;
        m->prompt = prompt;
        m->capacity = capacity;
    }
    memcpy(m->prompt + m->length, bytes, length);
    m->length += length;
    return true;
}

static bool append_question(struct mmlu *m, const struct question *q, bool answered) {
    bool room = append(m, q->text.bytes, q->text.length);
    for (int i = 0; i < CHOICES && room; i++) {
        const char label[] = {'\n', (char)('A' + i), '.', ' '};
        room = append(m, label, sizeof label) && append(m, q->choice[i].bytes, q->choice[i].length);
    }
    room = room && append(m, "\nAnswer:", 8);
    const char answer[] = {' ', (char)('A' + q->answer), '\n', '\n'};
    return room && (!answered || append(m, answer, sizeof answer));
}

static bool write_prompt(struct mmlu *m, const char *subject, const struct questions *examples,
                         size_t shots, const struct question *asked) {
    static const char intro[] = "The following are multiple choice questions (with answers) about ";
    m->length = 0;
    bool room = append(m, intro, sizeof intro - 1);
    for (const char *c = subject; *c && room; c++)
        room = append(m, *c == '_' ? " " : c, 1);
    room = room && append(m, ".\n\n", 3);
    for (size_t i = 0; i < shots && room; i++)
        room = append_question(m, &examples->list[i], true);
    return room && append_question(m, asked, false);
}

/* Converts the prompt and a letter to ids. */
static int tokenize_choice(struct mmlu *m, int choice) {
    struct tokens *t = &m->tokens[choice];
    const char answer[] = {' ', (char)('A' + choice)};
    wisp_error error;
    if (!append(m, answer, sizeof answer))
        return complain_of_memory();
    const wisp_text text = {m->prompt, m->length};
    m->length -= sizeof answer;
    if (wisp_tokenize(m->model, text, t->ids, t->capacity, &t->n, &error) != WISP_OK)
        return complain_of(&error);
    if (t->n <= t->capacity)
        return EXIT_GOOD;
    int32_t *ids = realloc(t->ids, 2 * t->n * sizeof *ids);
    if (!ids)
        return complain_of_memory();
    t->ids = ids;
    t->capacity = 2 * t->n;
    if (wisp_tokenize(m->model, text, t->ids, t->capacity, &t->n, &error) != WISP_OK)
        return complain_of(&error);
    return EXIT_GOOD;
}

/* ---- choices -------------------------------------------------------------------------------- */

/* Computes numbers that differ from the choices' log-probabilities by one constant: the tokens that
 * all four texts begin with count alike for each choice and are left out. */
static int score_choices(struct mmlu *m, double scores[CHOICES]) {
    const struct tokens *t = m->tokens;
    size_t common = 0;
    bool one_token = true;
    wisp_error error;
    for (bool same = true; same; common += same)
        for (int i = 0; i < CHOICES; i++)
            same = same && common < t[i].n && t[i].ids[common] == t[0].ids[common];
    for (int i = 0; i < CHOICES; i++)
        one_token = one_token && t[i].n == common + 1;
    if (one_token) {
        if (wisp_next_logits(m->session, t[0].ids, common, m->logits, &error) != WISP_OK)
            return complain_of(&error);
        for (int i = 0; i < CHOICES; i++)
            scores[i] = (double)m->logits[t[i].ids[common]];
        return EXIT_GOOD;
    }
    for (int i = 0; i < CHOICES; i++) {
        scores[i] = 0;
        if (t[i].n == common)
            continue;
        if (wisp_score(m->session, t[i].ids, t[i].n, common, m->scores, &error) != WISP_OK)
            return complain_of(&error);
        for (size_t k = 0; k < t[i].n - common; k++)
            scores[i] += (double)m->scores[k];
    }
    return EXIT_GOOD;
}

/* Asks one question with as many examples as fit the model's context. */
static int ask(struct mmlu *m, struct subject *subject, const struct questions *examples,
               size_t shots, const struct question *question, size_t number) {
    double scores[CHOICES];
    int code = EXIT_GOOD, best = 0;
    for (;; shots--) {
        size_t longest = 0;
        if (!write_prompt(m, subject->name, examples, shots, question))
            return complain_of_memory();
        for (int i = 0; i < CHOICES && code == EXIT_GOOD; i++) {
            code = tokenize_choice(m, i);
            longest = m->tokens[i].n > longest ? m->tokens[i].n : longest;
        }
        if (code != EXIT_GOOD)
            return code;
        if (longest <= m->max_tokens)
            break;
        if (shots == 0) {
            subject->too_long++;
            return EXIT_GOOD;
        }
    }
    code = score_choices(m, scores);
    if (code != EXIT_GOOD)
        return code;
    for (int i = 1; i < CHOICES; i++)
        if (scores[i] > scores[best])
            best = i;
    subject->asked++;
    subject->correct += best == question->answer;
    if (!m->options->answers)
        return EXIT_GOOD;
    fputs("{\"subject\":", program_output);
    print_json_string(program_output, wisp_text_of(subject->name));
    fprintf(program_output,
            ",\"question\":%zu,\"shots\":%zu,\"answer\":\"%c\",\"choice\":\"%c\"}\n", number, shots,
            'A' + question->answer, 'A' + best);
    return finish_output();
}

static int ask_subject(struct mmlu *m, struct subject *subject, struct progress *progress,
                       size_t done) {
    struct questions test = {0}, dev = {0};
    char path[PATH_BYTES];
    size_t first = 0, shots = m->options->shots;
    snprintf(path, sizeof path, "%s/%s%s", m->folder, subject->name, test_suffix);
    int code = read_questions(path, &test);
    snprintf(path, sizeof path, "%s/%s%s", m->folder, subject->name, dev_suffix);
    FILE *file = shots > 0 ? fopen(path, "rb") : NULL;
    if (file) {
        fclose(file);
        if (code == EXIT_GOOD)
            code = read_questions(path, &dev);
    }
    const struct questions *examples = file ? &dev : &test;
    if (shots > examples->n)
        shots = examples->n;
    if (!file)
        first = shots;
    size_t end = test.n;
    if (m->options->limit > 0 && end - first > m->options->limit)
        end = first + m->options->limit;
    for (size_t i = first; i < end && code == EXIT_GOOD; i++) {
        code = ask(m, subject, examples, shots, &test.list[i], i + 1);
        if (was_interrupted())
            code = EXIT_INTERRUPTED;
        progress_show(
            progress, done + i + 1 - first,
            ((double)(subject - m->subjects) + (double)(i + 1 - first) / (double)(end - first)) /
                (double)m->n);
    }
    free_questions(&test);
    free_questions(&dev);
    return code;
}

/* ---- figures -------------------------------------------------------------------------------- */

/* Wilson's interval of a share, at 95 %. */
static void interval(size_t correct, size_t n, double *low, double *high) {
    const double z = 1.959963985, count = (double)n, p = (double)correct / count;
    const double middle = p + z * z / (2 * count), below = 1 + z * z / count;
    const double half = z * sqrt(p * (1 - p) / count + z * z / (4 * count * count));
    *low = (middle - half) / below;
    *high = (middle + half) / below;
}

static void print_figures(const struct mmlu *m) {
    size_t asked = 0, correct = 0, too_long = 0, subjects = 0;
    double low = 0, high = 0, mean = 0;
    for (size_t i = 0; i < m->n; i++) {
        const struct subject *s = &m->subjects[i];
        asked += s->asked;
        correct += s->correct;
        too_long += s->too_long;
        subjects += s->asked > 0;
        mean += s->asked > 0 ? (double)s->correct / (double)s->asked : 0;
    }
    if (asked > 0)
        interval(correct, asked, &low, &high);
    const double accuracy = asked > 0 ? (double)correct / (double)asked : 0;
    mean = subjects > 0 ? mean / (double)subjects : 0;
    if (m->options->json) {
        fprintf(program_output,
                "{\"shots\":%lu,\"questions\":%zu,\"correct\":%zu,\"too_long\":%zu,"
                "\"accuracy\":%.6g,\"low\":%.6g,\"high\":%.6g,\"mean_of_subjects\":%.6g,"
                "\"subjects\":{",
                m->options->shots, asked, correct, too_long, accuracy, low, high, mean);
        for (size_t i = 0; i < m->n; i++) {
            fputs(i ? "," : "", program_output);
            print_json_string(program_output, wisp_text_of(m->subjects[i].name));
            fprintf(program_output, ":{\"questions\":%zu,\"correct\":%zu}", m->subjects[i].asked,
                    m->subjects[i].correct);
        }
        fputs("}}\n", program_output);
        return;
    }
    fprintf(program_output, "%-40s %9s %9s %9s\n", "subject", "questions", "correct", "accuracy");
    for (size_t i = 0; i < m->n; i++) {
        const struct subject *s = &m->subjects[i];
        print_padded(wisp_text_of(s->name), 40, 40);
        fprintf(program_output, " %9zu %9zu", s->asked, s->correct);
        if (s->asked > 0)
            fprintf(program_output, " %9.4f", (double)s->correct / (double)s->asked);
        fputc('\n', program_output);
    }
    fprintf(program_output, "%-40s %9zu %9zu %9.4f (95 %%: %.4f to %.4f)\n", "all", asked, correct,
            accuracy, low, high);
    fprintf(program_output, "%-40s %9s %9s %9.4f\n", "mean of subjects", "", "", mean);
    if (too_long > 0)
        fprintf(program_output, "%-40s %9zu\n", "longer than the model's context", too_long);
}

static int evaluate(struct mmlu *m) {
    wisp_model_info info;
    struct progress progress;
    size_t done = 0;
    wisp_model_get_info(m->model, &info);
    m->vocabulary = info.vocabulary_size;
    m->max_tokens = info.max_tokens;
    m->logits = malloc(m->vocabulary * sizeof *m->logits);
    m->scores = malloc(m->max_tokens * sizeof *m->scores);
    if (!m->logits || !m->scores)
        return complain_of_memory();
    int code = EXIT_GOOD;
    progress_start(&progress, "questions");
    for (size_t i = 0; i < m->n && code == EXIT_GOOD; i++) {
        code = ask_subject(m, &m->subjects[i], &progress, done);
        done += m->subjects[i].asked + m->subjects[i].too_long;
    }
    progress_end(&progress);
    if (code != EXIT_GOOD && code != EXIT_INTERRUPTED)
        return code;
    print_figures(m);
    const int written = finish_output();
    return written != EXIT_GOOD ? written : code;
}

int mmlu_evaluate(const struct model_arguments *arguments, const char *folder,
                  const struct mmlu_options *options) {
    struct mmlu m = {.options = options, .folder = folder};
    int code = list_subjects(&m);
    if (code == EXIT_GOOD)
        code = open_model(arguments, &m.model, &m.session);
    if (code == EXIT_GOOD) {
        watch_signals(m.session);
        code = evaluate(&m);
        watch_signals(NULL);
    }
    wisp_session_close(m.session);
    wisp_model_close(m.model);
    for (int i = 0; i < CHOICES; i++)
        free(m.tokens[i].ids);
    free(m.logits);
    free(m.scores);
    free(m.prompt);
    free(m.subjects);
    return code;
}
