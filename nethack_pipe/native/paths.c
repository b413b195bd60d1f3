/* The parts of a rich observation, see perception/observation.py: ways over the known ground, where the hero has just
 * been, what is around him, the whole level coarsely. What each number is, and the same without C, is written there.
 *
 * Results are the same everywhere: counts and steps are integers, and a number that is none is one division of two
 * integers that a float holds exactly.
 */

#include <stdint.h>
#include <string.h>

enum {
    HEIGHT = 21, WIDTH = 79, STRIDE = WIDTH + 2, CELLS = (HEIGHT + 2) * STRIDE, /* with a border, as LevelMemory.board */
    TILES = 19, TARGETS = 7, DIRECTIONS = 8, FAR = 40,
    CROP = 9, HALF = CROP / 2, PLANES = 14, HALF_LIFE = 8, MANY_VISITS = 4,
    ROWS = 7, COLUMNS = 13, BLOCKS = ROWS * COLUMNS, BLOCK_ROWS = HEIGHT / ROWS,
};
/* Bits of a cell: the targets in their order, then what can be walked on, left and entered diagonally, and what was
 * never seen. */
enum {
    FRONTIER = 1, DOWNSTAIRS = 2, UPSTAIRS = 4, ITEM = 8, FOE = 16, SHUT_DOOR = 32, UNVISITED = 64,
    FOE_TARGET = 4, ANY_TARGET = (1 << TARGETS) - 1, WALKABLE = 128, STRAIGHT = 256, NEVER_SEEN = 512,
};

struct view {
    const uint8_t *tiles, *explored, *blocked, *lying, *base, *board;
    const int32_t *visits, *last_visit;
    uint8_t closed[TILES], door[TILES], plane_of[TILES];
    uint8_t unknown, stairs_down, stairs_up, closed_door, hostile;
    uint8_t slanted, paths, recency, crop, map;
    int start; /* where in an observation the parts begin */
};

/* north, south, east, west, northeast, northwest, southeast, southwest */
static const int STEP[DIRECTIONS] = {-STRIDE, STRIDE, 1, -1, 1 - STRIDE, -1 - STRIDE, 1 + STRIDE, -1 + STRIDE};
enum { FIRST_DIAGONAL = 4 };

static void read_level(const struct view *view, int hero, uint16_t cells[CELLS])
{
    uint16_t of_ground[TILES]; /* what the ground alone tells */

    for (int tile = 0; tile < TILES; tile++)
        of_ground[tile] = (view->closed[tile] ? 0 : WALKABLE | UNVISITED | ITEM) | (view->door[tile] ? 0 : STRAIGHT)
                          | (tile == view->stairs_down ? DOWNSTAIRS : 0) | (tile == view->stairs_up ? UPSTAIRS : 0)
                          | (tile == view->closed_door ? SHUT_DOOR : 0);
    memset(cells, 0, CELLS * sizeof *cells);
    for (int y = 0, i = 0; y < HEIGHT; y++)
        for (int x = 0, cell = (y + 1) * STRIDE + 1; x < WIDTH; x++, i++, cell++) {
            const int on = view->board[cell], explored = view->explored[i];
            const int open = explored & !view->blocked[i] & !view->closed[on];
            int kept = STRAIGHT | DOWNSTAIRS | UPSTAIRS | SHUT_DOOR;
            kept |= open ? WALKABLE : 0;
            kept |= open & !view->visits[i] ? UNVISITED : 0;
            kept |= open & !view->visits[i] & view->lying[i] ? ITEM : 0;
            cells[cell] = (of_ground[view->tiles[i]] & kept) | (on == view->hostile ? FOE : 0)
                          | (!explored & (view->base[i] == view->unknown) ? NEVER_SEEN : 0);
        }
    cells[hero] &= ~FOE; /* who was there before him */
}

static void mark_frontier(uint16_t cells[CELLS])
{
    for (int cell = STRIDE; cell < CELLS - STRIDE; cell++) {
        if (!(cells[cell] & UNVISITED))
            continue;
        int around = 0;
        for (int i = 0; i < DIRECTIONS; i++)
            around |= cells[cell + STEP[i]];
        cells[cell] |= around & NEVER_SEEN ? FRONTIER : 0;
    }
}

/* One flood from the hero. Each cell it reaches knows with which first steps it can be reached as soon, so that the
 * nearest cells of a target tell which steps come nearer to it. Returns the targets that can be reached. */
static int find_ways(const uint16_t cells[CELLS], int hero, int slanted, int distance[TARGETS], int steps[TARGETS])
{
    uint16_t layer_of[CELLS] = {0}, queue[CELLS];
    uint8_t first[CELLS];
    int waiting = 0, found = 0, begin = 0, end = 1;

    for (int cell = 0; cell < CELLS; cell++)
        waiting |= cells[cell] & ANY_TARGET;
    queue[0] = hero;
    layer_of[hero] = 1;
    first[hero] = 0;
    for (int d = 0; begin < end && waiting; d++) {
        const int layer_end = end;
        for (int i = begin; i < layer_end; i++) {
            const int here = cells[queue[i]] & waiting;
            for (int target = 0; here >> target; target++)
                if (here >> target & 1) {
                    if (!(found >> target & 1))
                        distance[target] = d, steps[target] = 0;
                    found |= 1 << target;
                    steps[target] |= first[queue[i]];
                }
        }
        waiting &= ~found;
        for (; begin < layer_end; begin++) {
            const int from = queue[begin];
            if (!(cells[from] & WALKABLE) && from != hero)
                continue; /* a target that cannot be passed */
            const int directions = slanted && cells[from] & STRAIGHT ? DIRECTIONS : FIRST_DIAGONAL;
            for (int i = 0; i < directions; i++) {
                const int to = from + STEP[i];
                if (!(cells[to] & (ANY_TARGET | WALKABLE)) || (i >= FIRST_DIAGONAL && !(cells[to] & STRAIGHT)))
                    continue;
                if (!layer_of[to]) {
                    layer_of[to] = d + 2;
                    first[to] = 0;
                    queue[end++] = to;
                }
                if (layer_of[to] == d + 2)
                    first[to] |= d ? first[from] : 1 << i;
            }
        }
    }
    return found;
}

static float *write_paths(const struct view *view, uint16_t cells[CELLS], int hero, int swallowed, float *out)
{
    int distance[TARGETS], steps[TARGETS], found;

    if (swallowed) {
        found = FOE;
        distance[FOE_TARGET] = 1;
        steps[FOE_TARGET] = (1 << DIRECTIONS) - 1;
    } else {
        mark_frontier(cells);
        found = find_ways(cells, hero, view->slanted, distance, steps);
    }
    for (int target = 0; target < TARGETS; target++, out += 3 + DIRECTIONS) {
        if (!(found >> target & 1)) {
            memset(out, 0, (3 + DIRECTIONS) * sizeof *out);
            continue;
        }
        const int d = distance[target];
        out[0] = 1.0f;
        out[1] = (float)(d < FAR ? d : FAR) / (float)FAR;
        out[2] = 1.0f / (float)(1 + d);
        for (int i = 0; i < DIRECTIONS; i++)
            out[3 + i] = (float)(steps[target] >> i & 1);
    }
    return out;
}

static float *write_recency(const struct view *view, int hero_y, int hero_x, int now, float *out)
{
    float *often = out + CROP * CROP;

    for (int y = hero_y - HALF; y <= hero_y + HALF; y++)
        for (int x = hero_x - HALF; x <= hero_x + HALF; x++, out++, often++) {
            *out = *often = 0.0f;
            if (y < 0 || y >= HEIGHT || x < 0 || x >= WIDTH)
                continue;
            const int32_t last = view->last_visit[y * WIDTH + x], visits = view->visits[y * WIDTH + x];
            if (last)
                *out = (float)HALF_LIFE / (float)(HALF_LIFE + now - last);
            *often = (float)visits / (float)(visits + MANY_VISITS);
        }
    return often;
}

static float *write_crop(const struct view *view, int hero_y, int hero_x, float *out)
{
    memset(out, 0, PLANES * CROP * CROP * sizeof *out);
    for (int i = 0; i < CROP * CROP; i++) {
        int y = hero_y + i / CROP - HALF, x = hero_x + i % CROP - HALF;
        int tile = view->base[hero_y * WIDTH + hero_x]; /* not who was there before the hero */
        if (y != hero_y || x != hero_x) {
            y = y < -1 ? -1 : y > HEIGHT ? HEIGHT : y; /* beyond the edge all is as its border */
            x = x < -1 ? -1 : x > WIDTH ? WIDTH : x;
            tile = view->board[(y + 1) * STRIDE + x + 1];
        }
        if (view->plane_of[tile] < PLANES)
            out[view->plane_of[tile] * CROP * CROP + i] = 1.0f;
    }
    return out + PLANES * CROP * CROP;
}

static float *write_map(const struct view *view, const uint16_t cells[CELLS], int hero_y, int hero_x, float *out)
{
    float *const hero = out + 5 * BLOCKS;

    memset(hero, 0, BLOCKS * sizeof *hero);
    for (int row = 0; row < ROWS; row++)
        for (int column = 0, begin = 0; column < COLUMNS; column++, out++) {
            int seen = 0, walkable = 0, visited = 0, item = 0, foe = 0, x = begin;
            for (; x < WIDTH && x * COLUMNS / WIDTH == column; x++)
                for (int y = row * BLOCK_ROWS; y < (row + 1) * BLOCK_ROWS; y++) {
                    const int bits = cells[(y + 1) * STRIDE + x + 1];
                    seen += !(bits & NEVER_SEEN);
                    walkable += !!(bits & WALKABLE);
                    visited += view->visits[y * WIDTH + x] > 0;
                    item |= view->lying[y * WIDTH + x];
                    foe |= bits & FOE;
                }
            const float size = (float)((x - begin) * BLOCK_ROWS);
            out[0] = (float)seen / size;
            out[BLOCKS] = (float)walkable / size;
            out[2 * BLOCKS] = (float)visited / size;
            out[3 * BLOCKS] = (float)item;
            out[4 * BLOCKS] = (float)!!foe;
            begin = x;
        }
    hero[hero_y / BLOCK_ROWS * COLUMNS + hero_x * COLUMNS / WIDTH] = 1.0f;
    hero[BLOCKS] = (float)hero_y / (float)(HEIGHT - 1);
    hero[BLOCKS + 1] = (float)hero_x / (float)(WIDTH - 1);
    return hero + BLOCKS + 2;
}

/* Writes the parts that `view` asks for, one after the other, into the observation `out`. now: LevelMemory.last_visit
 * of a visit at this moment. */
void paths_observe(const struct view *view, int hero_y, int hero_x, int now, int swallowed, float *out)
{
    uint16_t cells[CELLS];
    const int hero = (hero_y + 1) * STRIDE + hero_x + 1;

    out += view->start;
    if (view->paths || view->map)
        read_level(view, hero, cells);
    if (view->paths)
        out = write_paths(view, cells, hero, swallowed, out);
    if (view->recency)
        out = write_recency(view, hero_y, hero_x, now, out);
    if (view->crop)
        out = write_crop(view, hero_y, hero_x, out);
    if (view->map)
        write_map(view, cells, hero_y, hero_x, out);
}
