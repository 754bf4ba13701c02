"""`gnomon tune-fusion`: k, depth and weights of rank fusion, chosen on judged queries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from .cli_common import UserError, user_errors, visible

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command(
    "tune-fusion",
    short_help="Choose k and depth of rank fusion on judged queries.",
    context_settings={"max_content_width": 100},
)
@click.argument("judgements", metavar="QRELS")
@click.argument("runs", metavar="RUN RUN...", nargs=-1, required=True)
@click.option("--metric", default="ndcg@10", show_default=True, help="Or mrr@N, recall@N.")
@click.option("-k", "ks", multiple=True, type=float, help="A k to try; may be given again.")
@click.option("--depth", "depths", multiple=True, type=click.IntRange(1), help="Likewise.")
@click.option("--weights", type=click.IntRange(2), help="Try weights in steps of 1/N as well.")
@click.option("--folds", default=5, show_default=True, type=click.IntRange(2))
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def tune_fusion(
    judgements: str,
    runs: tuple[str, ...],
    metric: str,
    ks: tuple[float, ...],
    depths: tuple[int, ...],
    weights: int | None,
    folds: int,
    seed: int,
    as_json: bool,
) -> None:
    """Choose k, depth and weights of reciprocal rank fusion for these RUNs.

    Settings are chosen on some queries and measured on others; the default (k=60, whole lists) is
    kept unless the tuned one is better beyond chance.

    \b
    QRELS  query 0 document gain (TREC), or query document gain (BEIR, with a header)
    RUN    query Q0 document rank score tag (TREC), or query document rank [score]
    Fields are separated by white space; .gz is read as well. The order is that of the ranks.
    """  # noqa: D301  click reads \b
    from .fusion_files import read_judgements, read_run
    from .fusion_tuning import DEPTHS, KS
    from .fusion_tuning import tune_fusion as tune

    if len(runs) < 2:
        raise UserError("fusion needs two runs or more")
    with user_errors():
        wanted: Sequence[int | None] = (*depths, None) if depths else DEPTHS
        found = tune(
            [read_run(path) for path in runs],
            read_judgements(judgements),
            metric=metric,
            ks=ks or KS,
            depths=wanted,
            weights=weights,
            folds=folds,
            seed=seed,
        )
    if as_json:
        click.echo(json.dumps(found.as_dict()))
        return
    for number, path in enumerate(runs, 1):
        click.echo(f"ranking {number}: {visible(path)}")
    for line in found.lines():
        click.echo(line)
